// Two kernels compute attention, one for many queries of a sequence and one for few: which of them serves follows from
// the batch, so a query must have the same bits from both.

import { expect, it } from 'vitest';
import type { KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { type AttendShape, attendKernel } from '../../src/compute/webgpu/kernels/attention.ts';
import { type KvLayout, kvLayout } from '../../src/compute/webgpu/kernels/kv-layout.ts';
import { attendManyKernel, manyQueries } from '../../src/compute/webgpu/kernels/tiled-attention.ts';
import { type AttentionCounts, planStep } from '../../src/compute/webgpu/plan-step.ts';
import { toHalf } from '../../src/weights/quants/floats.ts';
import { type SharedGpu, sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { thorough } from '../support/thorough.ts';

interface Trial {
  readonly kvType: KvType;
  readonly headSize: number;
  readonly group: number;
  readonly start: number;
  readonly rows: number;
  readonly bidirectional?: boolean;
  readonly window?: number;
  readonly softcap?: number;
  readonly hasSinks?: boolean;
}

const KV_HEADS = 2;
const TABLE = [7, 2, 9, 0, 5, 3, 8];
const BLOCKS = 10;

/** Tokens after the last one may hold anything: here, what is no number. */
function spoilUnseen(content: Uint32Array, layout: KvLayout, tokens: number): void {
  const { keyWords, wordsPerToken, keyFours, headWords, blockWords, type } = layout;
  const block = TABLE[Math.floor((tokens - 1) / 32)] as number;
  for (let head = 0; head < KV_HEADS; head++) {
    const start = block * blockWords + head * headWords;
    for (let token = ((tokens - 1) % 32) + 1; token < 32; token++) {
      if (type === 'q8') {
        content[start + 128 * keyFours + token] = 0x7fc00000;
        content[start + keyWords + 32 * wordsPerToken + token] = 0x7fc00000;
      }
      for (let word = 0; type === 'f16' && word < wordsPerToken; word++) {
        content[start + ((word >> 2) * 32 + token) * 4 + (word & 3)] = 0x7e007e00;
        content[start + keyWords + ((token >> 2) * wordsPerToken + word) * 4 + (token & 3)] = 0x7e007e00;
      }
    }
  }
}

/** KV of any content: halves or bytes of moderate size, scales of q8 between a hundredth and a tenth. */
function randomKv(kvType: KvType, words: number, random: () => number): Uint32Array<ArrayBuffer> {
  const content = new Uint32Array(words);
  const floats = new Float32Array(content.buffer);
  const half = () => toHalf(2 * random() - 1);
  for (let at = 0; at < words; at++) {
    if (kvType === 'f16') content[at] = half() | (half() << 16);
    else floats[at] = 0.01 + 0.09 * random();
  }
  return content;
}

/** What one way of sharing out the queries gives. */
async function attend({ run, withMemory }: SharedGpu, trial: Trial, queries: number): Promise<Float32Array> {
  const { kvType, headSize, group, start, rows } = trial;
  const headCount = group * KV_HEADS;
  const layout = kvLayout(kvType, headSize, KV_HEADS);
  const shape: AttendShape = {
    plan: 0,
    headCount,
    kvHeadCount: KV_HEADS,
    layout,
    bidirectional: trial.bidirectional,
    window: trial.window,
    scale: 1 / Math.sqrt(headSize),
    softcap: trial.softcap,
    hasSinks: trial.hasSinks,
  };
  const random = seededRandom(41);
  return withMemory(async (memory) => {
    const floats = (count: number) => Float32Array.from({ length: count }, () => 4 * random() - 2);
    const heads = await memory.filled('heads', floats(rows * headCount * headSize));
    const sinks = trial.hasSinks ? [await memory.filled('sinks', floats(headCount))] : [];
    const content = randomKv(kvType, BLOCKS * layout.blockWords, random);
    spoilUnseen(content, layout, start + rows);
    const kv = await memory.filled('KV', content);
    const batch = buildBatch([
      {
        tokens: Array(rows).fill(1),
        start,
        blocks: TABLE.slice(0, Math.ceil((start + rows) / 32)),
        wantLogits: 'none',
      },
    ]);
    const { words, counts } = planStep(batch, [
      {
        headCount,
        kvHeadCount: KV_HEADS,
        bidirectional: trial.bidirectional === true,
        imagesBothWays: false,
        mostParts: 0,
        busyWorkgroups: 1,
        manyQueries: queries,
        manyWorkgroups: 1,
      },
    ]);
    const [{ items, many }] = counts.attention as readonly [AttentionCounts];
    expect(many > 0).toBe(queries > 0);
    const step = await memory.filled('step', words);
    const output = await memory.storage('output', 4 * rows * headCount * headSize);
    const parts = await memory.storage('parts', 16);
    const few = {
      text: attendKernel(shape),
      buffers: [step, heads, kv, output, parts, kv, ...sinks],
      grid: [items, KV_HEADS],
    } as const;
    if (queries === 0) return new Float32Array(await run(output, few));
    const text = attendManyKernel({ ...shape, queries });
    const both = { text, buffers: [step, heads, kv, output, kv, ...sinks], grid: [many, KV_HEADS] } as const;
    return new Float32Array(await run(output, ...(items > 0 ? [few] : []), both));
  });
}

const smallHeads: readonly Trial[] = [
  { kvType: 'f16', headSize: 24, group: 4, start: 90, rows: 41, window: 70, hasSinks: true },
  { kvType: 'q8', headSize: 32, group: 2, start: 0, rows: 90, bidirectional: true, window: 20, softcap: 20 },
];

/** Each of their kernels takes ten seconds to compile for a processor. */
const largeHeads: readonly Trial[] = [
  { kvType: 'q8', headSize: 80, group: 3, start: 0, rows: 45, softcap: 20 },
  { kvType: 'f16', headSize: 72, group: 2, start: 20, rows: 30, hasSinks: true },
  { kvType: 'f16', headSize: 64, group: 1, start: 0, rows: 137, bidirectional: true },
];

describeOnFastestGpu('attention of many queries', () => {
  const shared = sharedGpu();

  it.each(thorough ? [...smallHeads, ...largeHeads] : smallHeads)(
    'has the bits of attention of few: $kvType, heads of $headSize, group of $group',
    async (trial) => {
      const layout = kvLayout(trial.kvType, trial.headSize, KV_HEADS);
      const few = await attend(shared, trial, 0);
      const many = await attend(shared, trial, manyQueries(layout, shared.gpu().info.limits));
      expect(few.some((value) => value !== 0)).toBe(true);
      expect(few.every(Number.isFinite)).toBe(true);
      expect(new Uint32Array(many.buffer)).toEqual(new Uint32Array(few.buffer));
    },
  );
});
