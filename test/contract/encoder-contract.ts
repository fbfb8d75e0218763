// Encoders: bidirectional attention over whole texts.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cosine, sequencesFor } from '../support/backend-properties.ts';
import { randomTokens, type TinyModel, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';
import { statesTogether } from '../support/whole-texts.ts';
import type { ContractModels, OpenBackend } from './backend-contract.ts';
import { isFloat, logitsOf, onReference, withBackend } from './running.ts';

const sizes: TinyModelOptions = {
  bidirectional: true,
  hiddenSize: 32,
  ffnSize: 64,
  vocabSize: 64,
};

const named: readonly (readonly [string, TinyModelOptions])[] = [
  [
    'norms over the stream, added tables',
    {
      streamNorms: true,
      addedTables: true,
      layerNorms: true,
      preNorms: false,
      finalNorm: false,
      biases: true,
    },
  ],
  ['all norms at once, and a window', { streamNorms: true, postNorms: true, residualScale: 0.5, window: 40 }],
  ['quantized', { type: 'Q8_0', addedTables: true, window: 7, sinks: true }],
];

/** Together several tiles of rows; the reference backend computes every one of them. */
const MOST_TEXTS = 5;

export function encoderContract(open: OpenBackend, models: ContractModels): void {
  it.each(named)(
    'give the states of the reference backend, and their bits among others: %s',
    (_, options) => {
      const model = tinyModel({ ...sizes, ...options });
      const texts = models.texts.map((count) => randomTokens(count, model.spec.vocabSize, count));
      return expectStates(open, models, model, texts);
    },
  );

  describe.each(models.encoders)('with $name', ({ models: arbitrary, runs }) => {
    it('give the states of the reference backend, and their bits among others', async () => {
      const property = fc.asyncProperty(arbitrary, ({ seed, ...model }) =>
        expectStates(open, models, model, sequencesFor(MOST_TEXTS, model.spec.vocabSize, seed)),
      );
      await fc.assert(property, runs);
    });
  });

  it('let a token see later ones, as far as its window reaches', async () => {
    const states = async (window: number | undefined, last: number) => {
      const model = tinyModel({
        bidirectional: true,
        layerCount: 1,
        ...(window === undefined ? {} : { window }),
      });
      const { hiddenSize, vocabSize } = model.spec;
      const tokens = [...randomTokens(39, vocabSize), last];
      const [all] = await withBackend(open, model, {}, (one) => statesTogether(one, [tokens], hiddenSize));
      return (row: number) => all?.slice(row * hiddenSize, (row + 1) * hiddenSize);
    };
    const [one, other] = [await states(undefined, 3), await states(undefined, 4)];
    expect(one(0)).not.toEqual(other(0));
    const [near, changed] = [await states(8, 3), await states(8, 4)];
    expect(near(31)).toEqual(changed(31));
    expect(near(32)).not.toEqual(changed(32));
  });

  it('refuse a part of a text', () =>
    withBackend(open, tinyModel({ bidirectional: true }), {}, async (backend) => {
      const part = { tokens: [1], start: 32, blocks: [0, 1], wantLogits: 'none' } as const;
      await expect(logitsOf(backend, part)).rejects.toThrow('never cut');
    }));
}

async function expectStates(
  open: OpenBackend,
  { settings }: ContractModels,
  model: TinyModel,
  texts: readonly (readonly number[])[],
): Promise<void> {
  const { hiddenSize } = model.spec;
  const expected = await withBackend(onReference, model, {}, (one) => statesTogether(one, texts, hiddenSize));
  for (const setting of settings) {
    await withBackend(open, model, setting, async (backend) => {
      const together = await statesTogether(backend, texts, hiddenSize);
      for (const [at, states] of together.entries()) {
        const [alone] = await statesTogether(backend, [texts[at] as number[]], hiddenSize, at + 2);
        expect(alone).toEqual(states);
        const likeness = cosine(states, expected[at] as Float32Array);
        expect(likeness).toBeGreaterThan(isFloat(model) ? 0.9999 : 0.999);
      }
    });
  }
}
