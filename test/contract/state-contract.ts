// Final states of rows: what the head would read.

import { expect, it } from 'vitest';
import { buildBatch } from '../../src/compute/batch.ts';
import { cosine } from '../support/backend-properties.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';
import type { OpenBackend } from './backend-contract.ts';
import { onReference, withBackend } from './running.ts';

const model = tinyModel({ hiddenSize: 68, normOffset: 1, tiedHead: true });
const { spec, weights } = model;
const { hiddenSize, vocabSize } = spec;
const tokens = randomTokens(70, vocabSize);
const others = randomTokens(40, vocabSize, 9);

export function stateContract(open: OpenBackend): void {
  it('are what the head reads', () =>
    withBackend(open, model, {}, async (backend) => {
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
    }));

  it('are the same bits in chunks, with a sequence that wants logits', () =>
    withBackend(open, model, {}, async (backend) => {
      const wanted = { wantLogits: 'none', wantStates: 'all' } as const;
      const alone = await backend.step(buildBatch([{ tokens, start: 0, blocks: [3, 1, 0], ...wanted }]));
      expect(alone.logits.length).toBe(0);
      const expected = alone.states.slice();
      const found: number[] = [];
      for (const [start, end] of [
        [0, 5],
        [5, 37],
        [37, 70],
      ] as const) {
        const { logits, states } = await backend.step(
          buildBatch([
            { tokens: others, start: 0, blocks: [4, 5], wantLogits: 'last' },
            { tokens: tokens.slice(start, end), start, blocks: [2, 6, 7], ...wanted },
          ]),
        );
        expect(logits.length).toBe(vocabSize);
        found.push(...states);
      }
      expect(Float32Array.from(found)).toEqual(expected);
    }));

  it.each(['F32', 'Q8_0'] as const)('are those of the reference backend: %s', async (type) => {
    const sizes = { layerCount: 1, ffnSize: 64, postNorms: true };
    const typed = tinyModel({ type, ...sizes });
    const batch = buildBatch([
      { tokens: others.slice(0, 4), start: 0, blocks: [2], wantLogits: 'last' },
      { tokens: others, start: 0, blocks: [1, 0], wantLogits: 'none', wantStates: 'all' },
    ]);
    const by = (one: OpenBackend) =>
      withBackend(one, typed, {}, async (backend) => {
        const { logits, states } = await backend.step(batch);
        return { logits: logits.slice(), states: states.slice() };
      });
    const [actual, expected] = [await by(open), await by(onReference)];
    const least = type === 'F32' ? 0.9999 : 0.999;
    expect(actual.states.length).toBe(others.length * typed.spec.hiddenSize);
    expect(cosine(actual.states, expected.states)).toBeGreaterThan(least);
    expect(cosine(actual.logits, expected.logits)).toBeGreaterThan(least);
  });
}
