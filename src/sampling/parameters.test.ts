import { describe, expect, it } from 'vitest';
import { type SamplingParameters, type SamplingRequest, validateSampling } from './parameters.ts';
import { seedFrom } from './random.ts';

const context = { vocabSize: 100, freshSeed: { low: 1, high: 2 } };

function accepted(request: SamplingRequest): SamplingParameters {
  const validation = validateSampling(request, context);
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  return validation.parameters;
}

describe('validateSampling', () => {
  it('fills in the defaults', () => {
    expect(accepted({})).toEqual({
      temperature: 1,
      topK: 0,
      topP: 1,
      minP: 0,
      typicalP: 1,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      logitBias: [],
      seed: context.freshSeed,
      logprobs: undefined,
      stopIds: [],
      minTokens: 0,
      maxTokens: undefined,
      ignoreEos: false,
    });
  });

  it.each<SamplingRequest>([
    { temperature: 0 },
    { temperature: 100 },
    { topK: 1_000_000 },
    { topP: 0 },
    { topP: 1e-9 },
    { minP: 1 },
    { typicalP: 0.2 },
    { repetitionPenalty: 0.01 },
    { repetitionPenalty: 100 },
    { presencePenalty: -2, frequencyPenalty: 2 },
    { logprobs: 0 },
    { logprobs: 20 },
    { stopIds: [0, 99] },
    { minTokens: 5, maxTokens: 5 },
    { ignoreEos: true },
    { logitBias: [{ token: 99, bias: -100 }] },
  ])('accepts %j as it stands', (request) => {
    expect(accepted(request)).toMatchObject(request);
  });

  it('takes -1 for no top-k', () => {
    expect(accepted({ topK: -1 }).topK).toBe(0);
  });

  it('takes seeds of 64 bits, from large numbers only as a bigint', () => {
    expect(accepted({ seed: 0 }).seed).toEqual({ low: 0, high: 0 });
    expect(accepted({ seed: -3 }).seed).toEqual(seedFrom(-3n));
    expect(accepted({ seed: 2n ** 64n - 1n }).seed).toEqual({ low: 0xffffffff, high: 0xffffffff });
    expect(accepted({ seed: Number.MAX_SAFE_INTEGER }).seed).toEqual(seedFrom(2n ** 53n - 1n));
  });

  it.each<[keyof SamplingParameters, SamplingRequest]>([
    ['temperature', { temperature: -0.1 }],
    ['temperature', { temperature: 101 }],
    ['temperature', { temperature: Number.NaN }],
    ['temperature', { temperature: 1e300 }],
    ['temperature', { temperature: '1' as unknown as number }],
    ['topK', { topK: -2 }],
    ['topK', { topK: 1.5 }],
    ['topK', { topK: 2 ** 31 }],
    ['topK', { topK: 2 ** 53 }],
    ['topP', { topP: -0.01 }],
    ['topP', { topP: 1.01 }],
    ['minP', { minP: -0.01 }],
    ['minP', { minP: 1.01 }],
    ['typicalP', { typicalP: 0 }],
    ['repetitionPenalty', { repetitionPenalty: 0 }],
    ['repetitionPenalty', { repetitionPenalty: 1e-300 }],
    ['repetitionPenalty', { repetitionPenalty: 0.0099 }],
    ['repetitionPenalty', { repetitionPenalty: 101 }],
    ['repetitionPenalty', { repetitionPenalty: Infinity }],
    ['repetitionPenalty', { repetitionPenalty: Number.NaN }],
    ['presencePenalty', { presencePenalty: 2.1 }],
    ['presencePenalty', { presencePenalty: -1e300 }],
    ['frequencyPenalty', { frequencyPenalty: -2.1 }],
    ['frequencyPenalty', { frequencyPenalty: 1e300 }],
    ['logitBias', { logitBias: [{ token: 100, bias: 1 }] }],
    ['logitBias', { logitBias: [{ token: 1, bias: 101 }] }],
    ['logitBias', { logitBias: [{ token: 1, bias: -1e300 }] }],
    ['logitBias', { logitBias: [{ token: 1, bias: Number.NaN }] }],
    [
      'logitBias',
      {
        logitBias: [
          { token: 1, bias: 1 },
          { token: 1, bias: 2 },
        ],
      },
    ],
    ['seed', { seed: 0.5 }],
    ['seed', { seed: 2 ** 53 }],
    ['seed', { seed: 1e300 }],
    ['seed', { seed: Number.NaN }],
    ['seed', { seed: 2n ** 64n }],
    ['logprobs', { logprobs: 21 }],
    ['logprobs', { logprobs: -1 }],
    ['stopIds', { stopIds: [-1] }],
    ['minTokens', { minTokens: -1 }],
    ['maxTokens', { maxTokens: 0 }],
    ['maxTokens', { minTokens: 6, maxTokens: 5 }],
    ['ignoreEos', { ignoreEos: 'yes' as unknown as boolean }],
  ])('refuses a wrong %s', (parameter, request) => {
    expect(validateSampling(request, context)).toMatchObject({ ok: false, parameter });
  });

  it('names the whole range, whichever end was missed', () => {
    const problemOf = (request: SamplingRequest) => {
      const validation = validateSampling(request, context);
      return validation.ok ? undefined : validation.problem;
    };
    expect(problemOf({ repetitionPenalty: 1e-300 })).toBe('must be a number from 0.01 to 100');
    expect(problemOf({ topK: 2 ** 40 })).toContain('from 1 to 2147483647');
    expect(problemOf({ maxTokens: 2 ** 40 })).toContain('from 1 to 2147483647');
    expect(problemOf({ minTokens: -1 })).toContain('from 0 to 2147483647');
  });
});
