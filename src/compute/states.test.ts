// Final states of rows: what the head would read, for whoever wants them.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../test/support/native.ts';
import { randomTokens, tinyModel } from '../../test/support/tiny-model.ts';
import type { Backend, CreateBackend } from './backend.ts';
import { buildBatch } from './batch.ts';
import { createCpuBackend } from './cpu/backend.ts';
import { createReferenceBackend } from './reference/backend.ts';

const onCpu: CreateBackend = (spec, weights, options) => createCpuBackend(addon(), spec, weights, options);
const backends: readonly (readonly [name: string, create: CreateBackend])[] = [
  ['reference', createReferenceBackend],
  ...(hasAddon ? ([['cpu', onCpu]] as const) : []),
];

const { spec, weights } = tinyModel({ hiddenSize: 68, normOffset: 1, tiedHead: true });
const { hiddenSize, vocabSize } = spec;
const tokens = randomTokens(70, vocabSize);
const others = randomTokens(40, vocabSize, 9);

function open(create: CreateBackend): Promise<Backend> {
  return create(spec, weights, { blockCount: 8 });
}

async function statesAlone(backend: Backend): Promise<Float32Array> {
  const batch = buildBatch([{ tokens, start: 0, blocks: [3, 1, 0], wantLogits: 'none', wantStates: 'all' }]);
  const { logits, states } = await backend.step(batch);
  expect(logits.length).toBe(0);
  return states.slice();
}

describe.each(backends)('final states on the %s backend', (_, create) => {
  it('are what the head reads', async () => {
    const backend = await open(create);
    const batch = buildBatch([
      { tokens, start: 0, blocks: [3, 1, 0], wantLogits: 'last', wantStates: 'last' },
    ]);
    const { logits, states } = await backend.step(batch);
    const embedding = new Float32Array(hiddenSize);
    const bytes = new Uint8Array(embedding.buffer);
    for (const token of [0, 7, vocabSize - 1]) {
      weights.readRows(spec.embedding.tensor, token, 1, bytes);
      const product = embedding.reduce((sum, value, i) => sum + value * (states[i] as number), 0);
      expect(logits[token]).toBeCloseTo(product, 3);
    }
    backend.close();
  });

  it('are the same bits in chunks, beside a sequence that wants logits', async () => {
    const backend = await open(create);
    const expected = await statesAlone(backend);
    const found: number[] = [];
    for (const [start, end] of [
      [0, 5],
      [5, 37],
      [37, 70],
    ] as const) {
      const { logits, states } = await backend.step(
        buildBatch([
          { tokens: others, start: 0, blocks: [4, 5], wantLogits: 'last' },
          {
            tokens: tokens.slice(start, end),
            start,
            blocks: [2, 6, 7],
            wantLogits: 'none',
            wantStates: 'all',
          },
        ]),
      );
      expect(logits.length).toBe(vocabSize);
      found.push(...states);
    }
    expect(Float32Array.from(found)).toEqual(expected);
    backend.close();
  });
});

describe.skipIf(!hasAddon)('final states', () => {
  it('agree between backends', async () => {
    const [reference, cpu] = await Promise.all([open(createReferenceBackend), open(onCpu)]);
    const expected = await statesAlone(reference);
    const states = await statesAlone(cpu);
    for (const [index, value] of expected.entries()) expect(states[index]).toBeCloseTo(value, 2);
    for (const backend of [reference, cpu]) backend.close();
  });
});
