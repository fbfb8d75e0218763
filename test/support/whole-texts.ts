// Texts of encoders, whole in one step, alone or together over scattered blocks; and encoders of any make.

import fc from 'fast-check';
import type { Backend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { blocksFor, floatTypes } from './backend-properties.ts';
import { seededRandom } from './random-blocks.ts';
import type { TinyModelOptions } from './tiny-model.ts';

/** States of every row of each text. */
export async function statesTogether(
  backend: Backend,
  texts: readonly (readonly number[])[],
  hiddenSize: number,
  seed = 1,
): Promise<Float32Array[]> {
  const free = Array.from({ length: backend.blockCount }, (_, block) => block);
  const random = seededRandom(seed);
  const take = () => free.splice(Math.floor(random() * free.length), 1)[0] as number;
  const { states } = await backend.step(
    buildBatch(
      texts.map((tokens) => ({
        tokens,
        start: 0,
        blocks: Array.from({ length: blocksFor(tokens.length) }, take),
        wantLogits: 'none',
        wantStates: 'all',
      })),
    ),
  );
  let at = 0;
  return texts.map(({ length }) => {
    const from = at;
    at += length * hiddenSize;
    return states.slice(from, at);
  });
}

/** What encoders differ in, over matrices of one of the types. */
export function encoders(types: readonly TensorType[]): fc.Arbitrary<TinyModelOptions> {
  return fc
    .record(
      {
        type: fc.constantFrom(...types),
        seed: fc.integer({ min: 1, max: 1e6 }),
        group: fc.constantFrom(1, 1, 2, 3),
        kvHeadCount: fc.constantFrom(1, 2),
        headSize: fc.constantFrom(16, 24, 64),
        window: fc.constantFrom(1, 5, 33, 64),
        streamNorms: fc.boolean(),
        addedTables: fc.boolean(),
        layerNorms: fc.boolean(),
        postNorms: fc.boolean(),
        biases: fc.boolean(),
        ungated: fc.boolean(),
        sinks: fc.boolean(),
        activation: fc.constantFrom('gelu', 'silu'),
        residualScale: fc.constantFrom(0.7),
      },
      { requiredKeys: ['type', 'seed', 'group', 'kvHeadCount', 'headSize'] },
    )
    .map(({ group, headSize, ...rest }) => ({
      ...rest,
      headSize: floatTypes.includes(rest.type) ? headSize : 64,
      headCount: group * rest.kvHeadCount,
      bidirectional: true,
      preNorms: rest.streamNorms !== true,
      finalNorm: rest.streamNorms !== true,
    })) as fc.Arbitrary<TinyModelOptions>;
}
