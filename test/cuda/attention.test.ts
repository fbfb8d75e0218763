// Attention on CUDA has the processor's bits, in every form: alone, in batches, in chunks and over several segments of 512 tokens.
// On a simulated GPU.

import { describe, expect, it } from 'vitest';
import type { Backend, KvType } from '../../src/compute/backend.ts';
import type { BatchSequence } from '../../src/compute/batch.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createCudaBackend } from '../../src/compute/cuda/backend.ts';
import type { PartSpec } from '../../src/model/spec.ts';
import { namedModels } from '../contract/named-models.ts';
import { logitsOf } from '../contract/running.ts';
import { blocksFor } from '../support/backend-properties.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { some } from '../support/thorough.ts';
import { type TinyModel, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

const { addon } = simulatedGpu();

const small: TinyModelOptions = {
  layerCount: 1,
  hiddenSize: 32,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 8,
  ffnSize: 32,
  vocabSize: 64,
  contextLength: 4096,
};

const byFeature: Readonly<Record<string, TinyModelOptions>> = {
  'plain heads': {},
  'heads of their own': { kvHeadCount: 4 },
  'nine heads that share one': { headCount: 9, kvHeadCount: 1 },
  'heads of 80': { headCount: 3, kvHeadCount: 1, headSize: 80 },
  'heads of 160': { headCount: 2, kvHeadCount: 1, headSize: 160 },
  'a window, softcap and sinks': { window: 40, attentionSoftcap: 5, sinks: true },
  'norms over all heads after rotation, growth and a gate': {
    queryKeyNorm: 'all',
    normsAfterRope: true,
    rotatedValues: 4,
    growth: { weight: 0.3, length: 20, shift: 1 },
    attentionGate: true,
  },
  'values that are keys': { valuesAreKeys: true, queryKeyNorm: true },
};

const named = (wanted: string): TinyModel => {
  const found = namedModels.find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`no model named ${wanted}`);
  return found.make();
};

function chunked(): TinyModel {
  const model = tinyModel({ ...small, queryKeyNorm: true, window: 30 });
  const inChunks = (part: PartSpec): PartSpec =>
    part.body.kind === 'attention' ? { ...part, body: { ...part.body, chunk: 20 } } : part;
  const layers = model.spec.layers.map((layer) => ({
    ...layer,
    branches: layer.branches.map((branch) => ({ ...branch, parts: branch.parts.map(inChunks) })),
  }));
  return { ...model, spec: { ...model.spec, layers } };
}

const tokenAt = (seed: number, position: number) => (position * 37 + seed * 11) % 60;

/** Sequences by first block, and how many tokens each computes in the steps of a test. */
interface Step {
  readonly sequence: number;
  readonly from: number;
  readonly to: number;
}

function partOf({ sequence, from, to }: Step, blocksEach: number): BatchSequence {
  const tokens = Array.from({ length: to - from }, (_, index) => tokenAt(sequence, from + index));
  // Blocks of a sequence lie in reverse.
  const blocks = Array.from({ length: blocksFor(to) }, (_, index) => (sequence + 1) * blocksEach - 1 - index);
  return { tokens, start: from, blocks, wantLogits: 'all' };
}

async function expectSame(
  model: TinyModel,
  kvType: KvType,
  steps: readonly (readonly Step[])[],
  blocksEach: number,
): Promise<void> {
  const sequences = 1 + Math.max(...steps.flat().map(({ sequence }) => sequence));
  const options = { blockCount: sequences * blocksEach, kvType };
  const backends: Backend[] = [];
  try {
    const cpu = await createCpuBackend(addon(), model.spec, model.weights, options);
    backends.push(cpu);
    const cuda = await createCudaBackend(addon(), model.spec, model.weights, {
      ...options,
      kernels: new Uint8Array(1),
    });
    backends.push(cuda);
    for (const step of steps) {
      const batch = step.map((part) => partOf(part, blocksEach));
      const expected = await logitsOf(cpu, ...batch);
      const logits = await logitsOf(cuda, ...batch);
      expect(logits.every(Number.isFinite), JSON.stringify(step)).toBe(true);
      expect(Buffer.from(logits.buffer).equals(Buffer.from(expected.buffer)), JSON.stringify(step)).toBe(
        true,
      );
    }
  } finally {
    for (const backend of backends) backend.close();
  }
}

const whole = (sequence: number, tokens: number): Step => ({ sequence, from: 0, to: tokens });

/** Prompts together with rows that decode, drafts of three tokens, and a graph that is replayed. */
const mixed: readonly (readonly Step[])[] = [
  [whole(0, 33), whole(1, 1), whole(2, 70)],
  [
    { sequence: 0, from: 33, to: 34 },
    { sequence: 1, from: 1, to: 47 },
    { sequence: 2, from: 70, to: 73 },
  ],
  [
    { sequence: 0, from: 34, to: 35 },
    { sequence: 1, from: 47, to: 48 },
    { sequence: 2, from: 73, to: 74 },
  ],
  [
    { sequence: 0, from: 35, to: 36 },
    { sequence: 1, from: 48, to: 49 },
    { sequence: 2, from: 74, to: 75 },
  ],
];

/** Rows of a step in which a sequence has computed nothing before are many; then a few at a time, past the ends of segments. */
const long: readonly (readonly Step[])[] = [
  [whole(0, 500)],
  [
    { sequence: 0, from: 500, to: 511 },
    { sequence: 1, from: 0, to: 20 },
  ],
  [{ sequence: 0, from: 511, to: 512 }],
  [{ sequence: 0, from: 512, to: 513 }],
  [
    { sequence: 0, from: 513, to: 1010 },
    { sequence: 1, from: 20, to: 21 },
  ],
  [{ sequence: 0, from: 1010, to: 1023 }],
  [
    { sequence: 0, from: 1023, to: 1026 },
    { sequence: 1, from: 21, to: 24 },
  ],
  [{ sequence: 0, from: 1026, to: 1027 }],
  [{ sequence: 0, from: 1027, to: 1100 }],
  [{ sequence: 0, from: 1100, to: 1101 }],
];

/** Decoding with more blocks than a thread block has stages for. */
const together = (tokens: number): readonly (readonly Step[])[] => [
  [whole(0, tokens), whole(1, tokens - 40), whole(2, 5)],
  [0, 1, 2].map((sequence) => {
    const from = [tokens, tokens - 40, 5][sequence] as number;
    return { sequence, from, to: from + 1 };
  }),
];

const tiny: TinyModelOptions = {
  ...small,
  hiddenSize: 16,
  ffnSize: 16,
  vocabSize: 60,
  headCount: 2,
  kvHeadCount: 1,
};

const growth = { weight: 0.3, length: 20, shift: 1 };
/** Single tokens in the first block and past it, where warps have two blocks, and on both sides of a segment's end. */
const byToken: readonly (readonly Step[])[] = [1, 2, 31, 32, 33, 257, 258, 420, 512, 513, 514].flatMap(
  (to, index, all) => {
    const from = all[index - 1] ?? 0;
    const before = to - 1 > from ? [[{ sequence: 0, from, to: to - 1 }]] : [];
    return [...before, [{ sequence: 0, from: to - 1, to }]];
  },
);

/** Numbers of heads that make pieces of one, two and four queries, where the GPU has four multiprocessors. */
const piecesOfHeads: readonly (readonly [string, TinyModelOptions])[] = [
  ['heads of 64', { headSize: 64 }],
  ['two heads of 128', { headSize: 128, headCount: 2, kvHeadCount: 2 }],
  ['eight heads that share one, with norms', { headSize: 64, headCount: 8, queryKeyNorm: true }],
  ['ten that share one, with biases', { headSize: 64, headCount: 10, biases: true }],
  ['norms after rotation, growth', { headSize: 64, normsAfterRope: true, queryKeyNorm: true, growth }],
  ['norms over all heads', { headSize: 64, headCount: 4, kvHeadCount: 2, queryKeyNorm: 'all' }],
  ['a window, softcap and sinks', { headSize: 64, window: 70, attentionSoftcap: 5, sinks: true }],
  ['values that are keys', { headSize: 64, valuesAreKeys: true, queryKeyNorm: true }],
  ['heads of 64, partly rotated', { headSize: 64, rotatedValues: 32 }],
];

describe('attention of the cuda backend', () => {
  describe.each(['f16', 'q8'] as const)('with KV of %s', (kvType) => {
    it.each(Object.keys(byFeature))('has the bits of the cpu: %s', async (name) => {
      await expectSame(tinyModel({ ...small, ...byFeature[name] }), kvType, mixed, 4);
    });

    it.each([
      ['all tokens, heads of four', { headSize: 4 }],
      // Positions past 1,024 need more of the table that growth has, in steps that are replayed too.
      [
        'windows of 700, sinks and growth',
        { window: 700, sinks: true, growth: { weight: 0.3, length: 300, shift: 1 } },
      ],
    ] as const)('has them over several segments: %s', async (_, options) => {
      await expectSame(tinyModel({ ...tiny, ...options }), kvType, long, 36);
    });

    it.each([
      ['four KV heads', { headCount: 4, kvHeadCount: 4, headSize: 4 }, 170],
      ['four KV heads of eight queries', { headCount: 32, kvHeadCount: 4, headSize: 4 }, 170],
      ['heads of 128', { headCount: 2, kvHeadCount: 2, headSize: 128 }, 290],
    ] as const)('has them where several sequences decode: %s', async (_, options, tokens) => {
      await expectSame(tinyModel({ ...tiny, ...options }), kvType, together(tokens), 10);
    });

    it.each(kvType === 'f16' ? piecesOfHeads : some(piecesOfHeads))(
      'has them token by token: %s',
      async (_, options) => {
        await expectSame(tinyModel({ ...tiny, ...options }), kvType, byToken, 20);
      },
    );

    it('has them with MLA', async () => {
      await expectSame(named('MLA'), kvType, mixed, 4);
    });
  });

  it('has them over several segments with MLA', async () => {
    const model = named('MLA');
    const steps: readonly (readonly Step[])[] = [
      [whole(0, 509)],
      [{ sequence: 0, from: 509, to: 512 }],
      [{ sequence: 0, from: 512, to: 513 }],
      [{ sequence: 0, from: 513, to: 530 }],
    ];
    await expectSame({ ...model, spec: { ...model.spec, contextLength: 1024 } }, 'f16', steps, 20);
  });

  it('has them in chunks with norms of each head', async () => {
    await expectSame(chunked(), 'f16', mixed, 4);
  });

  it('has them where texts are seen from both sides', async () => {
    for (const options of [{}, { window: 24 }]) {
      const model = tinyModel({ ...small, bidirectional: true, ...options });
      await expectSame(model, 'f16', [[whole(0, 40), whole(1, 3), whole(2, 90)]], 4);
    }
  });

  it('has them where a layer reads what another has stored', async () => {
    await expectSame(named('a layer that reads what another has stored'), 'q8', mixed, 4);
  });
});
