// Samplers held to llama.cpp's own: llama-cpp.vectors.json has what its library makes of the same logits, written by
// tools/samplers/llama_cpp_vectors.py.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Candidate, type Candidates, weighCandidates } from './candidates.ts';
import { chainOf } from './chain.ts';
import { biasedLogits } from './logit-edits.ts';
import { firstMu, keepUnsurprising, nextMu } from './mirostat.ts';
import { type SamplingRequest, type Spelling, validateSampling } from './parameters.ts';
import { seedFrom } from './random.ts';
import type { SampleRow } from './sample-row.ts';
import { SamplerState } from './sampler-state.ts';

interface Vectors {
  readonly history: readonly number[];
  readonly rows: Readonly<Record<string, readonly number[]>>;
  readonly steps: readonly (readonly number[])[];
  readonly mirostat: readonly (SamplingRequest & {
    readonly steps: readonly { readonly kept: readonly number[]; readonly sampled: number }[];
  })[];
  readonly cases: readonly {
    readonly name: string;
    readonly request: SamplingRequest & { readonly breakers?: readonly (readonly number[])[] };
    readonly logits: string;
    readonly kept: readonly number[];
    readonly probabilities: readonly number[];
  }[];
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL('./llama-cpp.vectors.json', import.meta.url), 'utf8'),
);

/** Sequence breakers are written as their tokens. */
const spelling: Spelling = { wordTokens: () => [], breakerTokens: (text) => [text.split(' ').map(Number)] };

function rowOf(
  { breakers = [], ...request }: Vectors['cases'][number]['request'],
  vocabSize: number,
): SampleRow {
  const drySequenceBreakers = breakers.map((tokens) => tokens.join(' '));
  const context = { vocabSize, freshSeed: seedFrom(1n), spelling };
  const validation = validateSampling({ ...request, drySequenceBreakers }, context);
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  const { parameters } = validation;
  const history = Int32Array.from(vectors.history);
  const state = new SamplerState(parameters, history, []);
  return { ...state.row(history, []), parameters, position: 3, choice: 0 };
}

describe('what samplers leave of a row', () => {
  it.each(vectors.cases)('is what llama.cpp leaves: $name, $logits', (vector) => {
    const logits = Float32Array.from(vectors.rows[vector.logits] as readonly number[]);
    const row = rowOf(vector.request, logits.length);
    const { list, total } = chainOf(biasedLogits(logits, row), row)(Infinity) as Candidates;
    const byToken = list.toSorted((a, b) => a.token - b.token);
    expect(byToken.map(({ token }) => token)).toEqual(vector.kept);
    for (const [place, { weight }] of byToken.entries()) {
      expect(weight / total).toBeCloseTo(vector.probabilities[place] as number, 6);
    }
  });

  it.each(vectors.cases)(
    'never depends on how far down candidates are gathered: $name, $logits',
    (vector) => {
      const logits = Float32Array.from(vectors.rows[vector.logits] as readonly number[]);
      const row = rowOf(vector.request, logits.length);
      const survivorsAt = chainOf(biasedLogits(logits, row), row);
      const all = survivorsAt(Infinity) as Candidates;
      for (const depth of [1, 2, 4, 8, 16]) {
        const some = survivorsAt(depth);
        if (some === undefined) continue;
        expect(some.total).toBe(all.total);
        expect(some.list).toEqual(all.list.slice(0, some.list.length));
      }
    },
  );
});

describe('mirostat', () => {
  it.each(vectors.mirostat)(
    'keeps and learns what llama.cpp does: version $mirostat, tau $mirostatTau',
    (vector) => {
      const { steps, ...request } = vector;
      const [first] = vectors.steps as [readonly number[]];
      const { parameters } = rowOf(request, first.length);
      let mu = firstMu(parameters);
      for (const [at, { kept, sampled }] of steps.entries()) {
        const logits = Float32Array.from(vectors.steps[at] as readonly number[]);
        const all = weighCandidates(logits, Math.max(...logits), 1);
        const own = keepUnsurprising(all, parameters, mu, logits.length) as Candidates;
        expect(own.list.map(({ token }) => token).sort((a, b) => a - b)).toEqual(kept);
        const chosen = own.list.find(({ token }) => token === sampled) as Candidate;
        mu = nextMu(parameters, mu, own, chosen);
      }
    },
  );
});
