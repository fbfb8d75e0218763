// Tokens are sampled as the oracle samples them from the same logits, in the step itself or after it.

import { expect, it } from 'vitest';
import type { Backend, Batch } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import type { SamplingRequest } from '../../src/sampling/parameters.ts';
import type { SampleResult, SampleRow } from '../../src/sampling/sample-row.ts';
import { sampleRows } from '../../src/sampling/sampler.ts';
import { TokenCounts } from '../../src/sampling/token-counts.ts';
import { sequencesFor } from '../support/backend-properties.ts';
import { rowOf } from '../support/sampling-requests.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';
import type { OpenBackend } from './backend-contract.ts';
import { alone, logitsOf, whole, withBackend } from './running.ts';

const requests: readonly SamplingRequest[] = [
  { temperature: 0 },
  { temperature: 0.8, topP: 0.9, seed: 1 },
  { temperature: 0, logprobs: 3, logitBias: [{ token: 4, bias: 3 }] },
  // A GPU must see all tokens for this one.
  { typicalP: 0.5, seed: 2 },
  { topK: 20, frequencyPenalty: 0.5, repetitionPenalty: 1.2, logprobs: 2, seed: 3 },
  { minP: 0.1, seed: 4 },
  { dryMultiplier: 1, topP: 0.9, seed: 5 },
  { dryMultiplier: 1, repetitionPenalty: 1.2, logprobs: 1, seed: 6 },
  { xtcProbability: 1, xtcThreshold: 0.01, temperature: 1.5, seed: 7 },
  { topNSigma: 1, dynatempRange: 0.5, minKeep: 3, seed: 8 },
  { mirostat: 1, mirostatTau: 3, logprobs: 2, seed: 9 },
  { mirostat: 2, seed: 10 },
  { samplers: 'kpt', topK: 50, topP: 0.7, temperature: 0.8, seed: 11 },
];

export function samplingContract(open: OpenBackend): void {
  const sizes = { layerCount: 1, hiddenSize: 16, ffnSize: 16 };

  it('gives the tokens of the oracle, whatever the requests of a batch', async () => {
    const vocabSize = 300;
    const sequences = sequencesFor(requests.length, vocabSize, 3).map((tokens, index) =>
      whole(tokens.slice(0, 20), [index]),
    );
    const rows = requests.map((request, index) =>
      rowOf(request, vocabSize, {
        counts: new TokenCounts(sequences[index]?.tokens ?? [], [1, 2, 1]),
        position: 20,
        forbidden: [index],
        dry: { tokens: [7, 8, 20], penalties: [1.5, 4, 0.25] },
        mu: 4,
        mask: index === 5 ? new Uint32Array(10).fill(0x77777777) : undefined,
      }),
    );
    await withBackend(open, tinyModel({ vocabSize, ...sizes }), {}, async (backend) => {
      const expected = sampleRows(await logitsOf(backend, ...sequences), vocabSize, rows);
      for (let again = 0; again < 2; again++) {
        expect(await sampled(backend, buildBatch(sequences), vocabSize, rows)).toEqual(expected);
      }
    });
  });

  it('scores tokens that are given as the oracle does, among rows that are sampled', async () => {
    const vocabSize = 300;
    const tokens = randomTokens(40, vocabSize, 8);
    const rows = tokens.map((_, position) =>
      position % 5 === 0
        ? rowOf({ seed: position }, vocabSize, { position })
        : rowOf({ temperature: 0, logprobs: position % 4 }, vocabSize, {
            given: (position * 37) % vocabSize,
          }),
    );
    await withBackend(open, tinyModel({ vocabSize, ...sizes }), {}, async (backend) => {
      const expected = sampleRows(await alone(backend, tokens), vocabSize, rows);
      const batch = buildBatch([whole(tokens, [0, 1], 'all')]);
      expect(await sampled(backend, batch, vocabSize, rows)).toEqual(expected);
    });
  });

  it('gives a token for every row, however many want one', async () => {
    const model = tinyModel(sizes);
    const { vocabSize } = model.spec;
    const tokens = randomTokens(70, vocabSize, 5);
    const rows = tokens.map((_, position) =>
      rowOf({ seed: 9, typicalP: position % 9 === 0 ? 0.5 : 1 }, vocabSize, { position }),
    );
    await withBackend(open, model, {}, async (backend) => {
      const logits = await alone(backend, tokens);
      const first = await alone(backend, tokens.slice(0, 40));
      expect(logits.length).toBe(70 * vocabSize);
      expect(logits.slice(0, first.length)).toEqual(first);
      const batch = buildBatch([whole(tokens, [0, 1, 2], 'all')]);
      expect(await sampled(backend, batch, vocabSize, rows)).toEqual(sampleRows(logits, vocabSize, rows));
    });
  });
}

async function sampled(
  backend: Backend,
  batch: Batch,
  vocabSize: number,
  rows: readonly SampleRow[],
): Promise<readonly SampleResult[]> {
  const { sampled, logits } = await backend.step(batch, rows);
  return sampled ?? backend.sampleRows(logits, vocabSize, rows);
}
