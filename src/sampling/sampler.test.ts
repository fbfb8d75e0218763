import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Candidates, thinOut, weighCandidates } from './candidates.ts';
import { adjustedLogits } from './logit-edits.ts';
import { type SamplingParameters, type SamplingRequest, validateSampling } from './parameters.ts';
import { seedFrom, uniformAt } from './random.ts';
import type { SampleResult, SampleRow } from './sample-row.ts';
import { sampleFrom, sampleRows } from './sampler.ts';
import { TokenCounts } from './token-counts.ts';

function rowOf(request: SamplingRequest, vocabSize: number, rest: Partial<SampleRow> = {}): SampleRow {
  const validation = validateSampling(request, { vocabSize, freshSeed: seedFrom(1n) });
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  return { parameters: validation.parameters, position: 0, choice: 0, forbidden: [], ...rest };
}

function sampleOne(
  logits: readonly number[],
  request: SamplingRequest,
  rest: Partial<SampleRow> = {},
): SampleResult {
  const row = rowOf(request, logits.length, rest);
  return sampleRows(Float32Array.from(logits), logits.length, [row])[0] as SampleResult;
}

function survivors(adjusted: Float32Array, highest: number, parameters: SamplingParameters): Candidates {
  return thinOut(weighCandidates(adjusted, highest, parameters.temperature), parameters) as Candidates;
}

function tokenOf(result: SampleResult): number {
  if (!result.ok) throw new Error(result.error);
  return result.token;
}

describe('greedy', () => {
  const greedy = { temperature: 0 };

  it('takes the highest logit, the lowest id of equals', () => {
    expect(tokenOf(sampleOne([1, 5, 5, 2], greedy))).toBe(1);
    expect(tokenOf(sampleOne([-0, 0, -1], greedy))).toBe(0);
    expect(tokenOf(sampleOne([-Infinity, -1e30, -Infinity], greedy))).toBe(1);
  });

  it('looks at bias, penalties, forbidden tokens and the mask', () => {
    const logits = [4, 3, 2, 1];
    expect(tokenOf(sampleOne(logits, { ...greedy, logitBias: [{ token: 3, bias: 3.5 }] }))).toBe(3);
    expect(tokenOf(sampleOne(logits, greedy, { forbidden: [0, 1] }))).toBe(2);
    expect(tokenOf(sampleOne(logits, greedy, { mask: Uint32Array.of(0b1010) }))).toBe(1);
    const counts = new TokenCounts([1], [0, 0]);
    expect(tokenOf(sampleOne(logits, { ...greedy, frequencyPenalty: 0.6 }, { counts }))).toBe(1);
    expect(tokenOf(sampleOne(logits, { ...greedy, presencePenalty: 1.2 }, { counts }))).toBe(1);
    expect(tokenOf(sampleOne(logits, { ...greedy, repetitionPenalty: 2.5 }, { counts }))).toBe(2);
  });
});

describe('adjustedLogits', () => {
  const adjusted = (logits: readonly number[], request: SamplingRequest, rest: Partial<SampleRow>) => [
    ...adjustedLogits(Float32Array.from(logits), rowOf(request, logits.length, rest)),
  ];

  it('penalizes repetition in prompt and answer, presence and frequency in the answer only', () => {
    const counts = new TokenCounts([0, 1], [2, 3, 3]);
    const logits = [2, -2, 4, 4, 4];
    expect(adjusted(logits, { repetitionPenalty: 2 }, { counts })).toEqual([1, -4, 2, 2, 4]);
    expect(adjusted(logits, { presencePenalty: 1.5 }, { counts })).toEqual([2, -2, 2.5, 2.5, 4]);
    expect(adjusted(logits, { frequencyPenalty: 0.5 }, { counts })).toEqual([2, -2, 3.5, 3, 4]);
    expect(adjusted(logits, { frequencyPenalty: -0.5 }, { counts })).toEqual([2, -2, 4.5, 5, 4]);
  });

  it('adds biases before penalties', () => {
    const counts = new TokenCounts([0]);
    const request = { repetitionPenalty: 2, logitBias: [{ token: 0, bias: -3 }] };
    expect(adjusted([1, 1], request, { counts })).toEqual([-4, 1]);
  });

  it('never changes the logits it is given', () => {
    const logits = Float32Array.of(1, 2, 3);
    adjustedLogits(logits, rowOf({ logitBias: [{ token: 1, bias: 5 }] }, 3, { forbidden: [0] }));
    expect([...logits]).toEqual([1, 2, 3]);
  });
});

// Distributions by Hugging Face's logits processors in float64: kept tokens and their probabilities.
interface WarperVectors {
  readonly cases: readonly {
    readonly name: string;
    readonly request: SamplingRequest;
    readonly logits: readonly number[];
    readonly prompt: readonly number[];
    readonly kept: readonly number[];
    readonly probabilities: readonly number[];
  }[];
}
const vectors: WarperVectors = JSON.parse(
  readFileSync(new URL('./warpers.vectors.json', import.meta.url), 'utf8'),
);

describe('the distribution sampled from', () => {
  it.each(vectors.cases)('is that of Hugging Face: $name, $logits.length tokens', (vector) => {
    const { logits, request, prompt, kept, probabilities } = vector;
    const row = rowOf(request, logits.length, { counts: new TokenCounts(prompt) });
    const adjusted = adjustedLogits(Float32Array.from(logits), row);
    const { list, total } = survivors(adjusted, Math.max(...adjusted), row.parameters);
    const byToken = list.toSorted((a, b) => a.token - b.token);
    expect(byToken.map(({ token }) => token)).toEqual(kept);
    for (const [place, { weight }] of byToken.entries()) {
      expect(weight / total).toBeCloseTo(probabilities[place] as number, 6);
    }
  });

  it('is that of exact arithmetic, however large the vocabulary and the temperature', () => {
    for (const temperature of [0.3, 1, 50]) {
      const logits = Float32Array.from(
        { length: 30_000 },
        (_, token) => -4 * Math.log(1 - uniformAt(seedFrom(3n), token, 0)),
      );
      const highest = Math.max(...logits);
      const { parameters } = rowOf({ temperature }, logits.length);
      const { list, total } = survivors(logits, highest, parameters);
      const exact = logits.reduce((sum, logit) => sum + Math.exp((logit - highest) / temperature), 0);
      for (const { weight, logit } of list) {
        const probability = Math.exp((logit - highest) / temperature) / exact;
        expect(Math.abs(weight / total - probability)).toBeLessThan(1e-6 * probability + 1e-11);
      }
    }
  });

  it('keeps what has a share of the first weight, the edge included', () => {
    const kept = (minP: number) => {
      const { parameters } = rowOf({ minP }, 4);
      return survivors(Float32Array.of(0, -1, -2, -60), 0, parameters).list.map(({ token }) => token);
    };
    expect(kept(1)).toEqual([0]);
    expect(kept(0.3)).toEqual([0, 1]);
    expect(kept(0.1)).toEqual([0, 1, 2]);
    // A token that weighs nothing is never kept, however small the share.
    expect(kept(1e-300)).toEqual([0, 1, 2]);
    expect(kept(5e-324)).toEqual([0, 1, 2]);
  });

  it('keeps exactly k of equal tokens, the lowest ids', () => {
    const { parameters } = rowOf({ topK: 2 }, 4);
    const { list } = survivors(Float32Array.of(1, 1, 1, 1), 1, parameters);
    expect(list.map(({ token }) => token)).toEqual([0, 1]);
  });
});

describe('sampling', () => {
  // Seeds are fixed, so that a result either stands for ever or fails for ever.
  function chiSquare(
    request: SamplingRequest,
    logits: readonly number[],
    expected: readonly number[],
  ): number {
    const samples = 20_000;
    const rows = Array.from({ length: samples }, (_, index) =>
      rowOf({ ...request, seed: BigInt(index) }, logits.length, { position: index % 7 }),
    );
    const flat = Float32Array.from(
      { length: samples * logits.length },
      (_, i) => logits[i % logits.length] as number,
    );
    const counts = new Array<number>(logits.length).fill(0);
    for (const result of sampleRows(flat, logits.length, rows))
      counts[tokenOf(result)] = (counts[tokenOf(result)] as number) + 1;
    return expected.reduce((sum, share, token) => {
      const count = counts[token] as number;
      if (share === 0) return sum + (count === 0 ? 0 : Infinity);
      return sum + (count - share * samples) ** 2 / (share * samples);
    }, 0);
  }

  const logits = [0, 1, 2, 3, 1.5, -1];
  const softmax = (temperature: number, kept: readonly number[]) => {
    const weights = logits.map((logit, token) => (kept.includes(token) ? Math.exp(logit / temperature) : 0));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  };

  // Five degrees of freedom: 20.5 is exceeded once in a thousand.
  it('follows the softmax', () => {
    expect(chiSquare({}, logits, softmax(1, [0, 1, 2, 3, 4, 5]))).toBeLessThan(20.5);
    expect(chiSquare({ temperature: 2 }, logits, softmax(2, [0, 1, 2, 3, 4, 5]))).toBeLessThan(20.5);
  });

  it('follows the softmax over what top-k and top-p leave', () => {
    expect(chiSquare({ topK: 3 }, logits, softmax(1, [2, 3, 4]))).toBeLessThan(20.5);
    expect(chiSquare({ topP: 0 }, logits, softmax(1, [3]))).toBeLessThan(20.5);
    expect(chiSquare({ topP: 0.75 }, logits, softmax(1, [2, 3]))).toBeLessThan(20.5);
  });

  it('depends on seed, position and choice, and on nothing else', () => {
    const flat = new Array<number>(1000).fill(0);
    const sample = (seed: number, position: number, choice: number) =>
      tokenOf(sampleOne(flat, { seed }, { position, choice }));
    expect(sample(1, 5, 0)).toBe(sample(1, 5, 0));
    const different = new Set([sample(1, 5, 0), sample(2, 5, 0), sample(1, 6, 0), sample(1, 5, 1)]);
    expect(different.size).toBe(4);
    const row = rowOf({ seed: 1 }, 1000, { position: 5 });
    const batch = sampleRows(new Float32Array(3000), 1000, [rowOf({ seed: 8 }, 1000), row, row]);
    expect(batch.slice(1).map(tokenOf)).toEqual([sample(1, 5, 0), sample(1, 5, 0)]);
  });
});

describe('the first candidates and the weight of all', () => {
  const shares = fc.constantFrom(1, 1, 0.99, 0.9, 0.5, 0.1);
  const topP = fc.oneof({ weight: 6, arbitrary: shares }, { weight: 1, arbitrary: fc.constant(0) });
  const requests = fc.record({
    temperature: fc.constantFrom(0.5, 1, 2),
    topK: fc.constantFrom(0, 0, 1, 5, 20, 60, 300),
    topP,
    typicalP: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: shares }),
    minP: fc.constantFrom(0, 0, 0.01, 0.1, 0.5),
    seed: fc.nat(),
  });

  it('sample what all candidates sample, or say that they do not decide it', () => {
    let decided = 0;
    fc.assert(
      fc.property(requests, fc.nat(0xffff), fc.integer({ min: 1, max: 200 }), (request, seed, known) => {
        const logits = Float32Array.from({ length: 200 }, (_, token) =>
          Math.fround(-2 * Math.log(1 - uniformAt({ low: seed, high: 0 }, token, 0))),
        );
        const row = rowOf(request, logits.length);
        const candidates = weighCandidates(logits, Math.max(...logits), row.parameters.temperature);
        const { list, total } = candidates;
        const all = sampleFrom(candidates, row);
        const whole = known >= list.length;
        const first = sampleFrom({ list: list.slice(0, known), total, whole }, row);
        if (known >= list.length) expect(first).toBe(all);
        if (first !== undefined) expect(first).toBe(all);
        if (first !== undefined && known < list.length) decided++;
      }),
      { numRuns: 1000, seed: 1 },
    );
    expect(decided).toBeGreaterThan(200);
  });
});

describe('log-probabilities', () => {
  it('are those of the model, whatever was done to the logits', () => {
    const logits = [1, 3, 2, -Infinity];
    const total = Math.log(Math.exp(1) + Math.exp(3) + Math.exp(2));
    const request = { temperature: 0, logprobs: 4, logitBias: [{ token: 0, bias: 50 }] };
    const result = sampleOne(logits, request, { forbidden: [1] });
    if (!result.ok) throw new Error(result.error);
    expect(result.token).toBe(0);
    expect(result.logprobs?.logprob).toBeCloseTo(1 - total, 6);
    expect(result.logprobs?.top.map(({ token }) => token)).toEqual([1, 2, 0]);
    expect(result.logprobs?.top[0]?.logprob).toBeCloseTo(3 - total, 6);
  });

  it('are accurate to a millionth over a large vocabulary, peaked or flat', () => {
    for (const spread of [3, 0.3]) {
      const seed = seedFrom(5n);
      const logits = Array.from({ length: 50_000 }, (_, token) =>
        Math.fround(-spread * Math.log(1 - uniformAt(seed, token, 0))),
      );
      const highest = Math.max(...logits);
      const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - highest), 0));
      const result = sampleOne(logits, { temperature: 1, logprobs: 20 });
      if (!result.ok || result.logprobs === undefined) throw new Error('nothing sampled');
      const { logprob, top } = result.logprobs;
      for (const entry of [{ token: result.token, logprob }, ...top]) {
        const exact = (logits[entry.token] as number) - highest - total;
        expect(Math.abs(entry.logprob - exact)).toBeLessThan(1e-6);
      }
    }
  });

  it('come only if asked for, without alternatives for 0', () => {
    expect(sampleOne([1, 2], { temperature: 0 })).toEqual({ ok: true, token: 1 });
    expect(sampleOne([1, 2], { temperature: 0, logprobs: 0 })).toMatchObject({ logprobs: { top: [] } });
  });
});

describe('logits nothing can be sampled from', () => {
  it('are an error of their row', () => {
    expect(sampleOne([1, Number.NaN], {})).toEqual({ ok: false, error: 'numeric-error' });
    expect(sampleOne([1, Infinity], { temperature: 0 })).toEqual({ ok: false, error: 'numeric-error' });
    expect(sampleOne([-Infinity, -Infinity], {})).toEqual({ ok: false, error: 'no-candidate' });
    expect(sampleOne([1, 2], {}, { mask: Uint32Array.of(0) })).toEqual({ ok: false, error: 'no-candidate' });
    const overflow = { repetitionPenalty: 0.01 };
    expect(sampleOne([3e38, 2], overflow, { counts: new TokenCounts([0]) })).toEqual({
      ok: false,
      error: 'numeric-error',
    });
  });
});
