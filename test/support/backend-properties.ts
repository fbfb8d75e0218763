// Models of any shape, and sequences computed together in every way a scheduler may choose: what the properties of all
// backends are made of.

import fc from 'fast-check';
import { type Backend, BLOCK_TOKENS } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { seededRandom } from './random-blocks.ts';
import { randomTokens, type TinyModelOptions } from './tiny-model.ts';

export const BLOCKS = 96;

export const floatTypes: readonly TensorType[] = ['F32', 'F16', 'BF16'];
const groupTypes: readonly TensorType[] = [
  'Q8_0',
  'Q4_0',
  'Q4_1',
  'Q5_0',
  'Q5_1',
  'IQ4_NL',
  'MXFP4',
  'NVFP4',
  'F8_G32',
  'MLX3_G64',
  'MLX4_G32_F16',
  'MLX4_G64_BF16',
  'MLX8_G64_BF16',
];
export const superTypes: readonly TensorType[] = [
  'Q2_K',
  'Q3_K',
  'Q4_K',
  'Q5_K',
  'Q6_K',
  'IQ1_M',
  'IQ2_XXS',
  'IQ2_S',
  'IQ3_S',
  'IQ4_XS',
  'TQ1_0',
];

/** Sizes that a type's blocks divide; float types take odd ones too. */
function sizesFor(type: TensorType): fc.Arbitrary<TinyModelOptions> {
  const heads = fc.record({
    headSize: fc.constantFrom(...(floatTypes.includes(type) ? [8, 16, 24, 80, 128] : [32, 64, 128])),
    kvHeadCount: fc.constantFrom(1, 2),
    group: fc.constantFrom(1, 2, 3, 4),
  });
  const unit = superTypes.includes(type) ? 256 : floatTypes.includes(type) ? 4 : 64;
  return fc
    .tuple(heads, fc.integer({ min: 1, max: unit === 256 ? 1 : 6 }), fc.integer({ min: 1, max: 3 }))
    .map(([{ headSize, kvHeadCount, group }, hidden, ffn]) => ({
      headSize: unit === 256 ? 64 : headSize,
      kvHeadCount: unit === 256 ? 2 : kvHeadCount,
      headCount: unit === 256 ? 4 : unit === 64 ? 2 * kvHeadCount * group : kvHeadCount * group,
      hiddenSize: unit * hidden,
      ffnSize: unit * ffn * (unit === 4 ? 9 : 1),
    }));
}

export const models: fc.Arbitrary<TinyModelOptions> = fc
  .constantFrom(...floatTypes, ...groupTypes, ...superTypes)
  .chain((type) =>
    fc
      .tuple(
        sizesFor(type),
        fc.record(
          {
            seed: fc.integer({ min: 1, max: 1e6 }),
            vocabSize: fc.constantFrom(64, 97, 131),
            activation: fc.constantFrom('silu', 'gelu-tanh'),
            window: fc.constantFrom(5, 33, 64),
            queryKeyNorm: fc.boolean(),
            postNorms: fc.boolean(),
            biases: fc.boolean(),
            fused: fc.boolean(),
            interleaved: fc.boolean(),
            tiedHead: fc.boolean(),
            normOffset: fc.constantFrom(0, 1),
            attentionSoftcap: fc.constantFrom(20, 50),
            logitSoftcap: fc.constantFrom(10, 30),
          },
          { requiredKeys: ['seed', 'vocabSize', 'activation'] },
        ),
      )
      .map(([sizes, features]) => ({ ...sizes, ...features, type }) as TinyModelOptions),
  );

function shuffledBlocks(seed: number): number[] {
  const random = seededRandom(seed);
  const blocks = Array.from({ length: BLOCKS }, (_, block) => block);
  for (let last = blocks.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [blocks[last], blocks[other]] = [blocks[other] as number, blocks[last] as number];
  }
  return blocks;
}

export const blocksFor = (tokens: number) => Math.ceil(tokens / BLOCK_TOKENS);

/** Several sequences together, each in its own random chunks, over scattered blocks; logits of every position. */
export async function together(
  backend: Backend,
  sequences: readonly (readonly number[])[],
  vocabSize: number,
  seed: number,
): Promise<Float32Array[]> {
  const random = seededRandom(seed);
  const free = shuffledBlocks(seed);
  const running = sequences.map((tokens) => ({
    tokens,
    done: 0,
    blocks: free.splice(0, blocksFor(tokens.length)),
    logits: new Float32Array(tokens.length * vocabSize),
  }));
  for (;;) {
    const items = running
      .filter(({ done, tokens }) => done < tokens.length)
      // Some sit a step out, as sequences that join later would.
      .filter((_, index) => index === 0 || random() < 0.8)
      .map((sequence) => ({
        sequence,
        count: 1 + Math.floor(random() * (sequence.tokens.length - sequence.done)),
      }));
    if (items.length === 0) return running.map(({ logits }) => logits);
    const batch = items.map(
      ({ sequence: { tokens, done, blocks }, count }): BatchSequence => ({
        tokens: tokens.slice(done, done + count),
        start: done,
        blocks: blocks.slice(0, blocksFor(done + count)),
        wantLogits: 'all',
      }),
    );
    const { logits } = await backend.step(buildBatch(batch));
    let row = 0;
    for (const { sequence, count } of items) {
      sequence.logits.set(
        logits.subarray(row * vocabSize, (row + count) * vocabSize),
        sequence.done * vocabSize,
      );
      sequence.done += count;
      row += count;
    }
  }
}

export function sequencesFor(count: number, vocabSize: number, seed: number, mostTokens = 120): number[][] {
  const random = seededRandom(seed);
  return Array.from({ length: count }, (_, index) =>
    randomTokens(1 + Math.floor(random() * mostTokens), vocabSize, seed + index),
  );
}

export function cosine(a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array) =>
    x.reduce((sum, value, index) => sum + value * (y[index] as number), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
