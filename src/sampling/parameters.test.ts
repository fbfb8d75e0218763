import { describe, expect, it } from 'vitest';
import { type SamplingParameters, type SamplingRequest, validateSampling } from './parameters.ts';
import { seedFrom } from './random.ts';
import { samplerNames } from './sampler-names.ts';

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
      dynatempRange: 0,
      dynatempExponent: 1,
      topK: 0,
      topP: 1,
      minP: 0,
      typicalP: 1,
      topNSigma: 0,
      xtcProbability: 0,
      xtcThreshold: 0.1,
      minKeep: 0,
      mirostat: 0,
      mirostatTau: 5,
      mirostatEta: 0.1,
      samplers: undefined,
      repeatLastN: undefined,
      dryMultiplier: 0,
      dryBase: 1.75,
      dryAllowedLength: 2,
      dryPenaltyLastN: -1,
      drySequenceBreakers: [],
      badWords: [],
      allowedTokenIds: undefined,
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
    { dynatempRange: 0.5, dynatempExponent: 2 },
    { topNSigma: 1.5 },
    { xtcProbability: 0.5, xtcThreshold: 0.2, minKeep: 2 },
    { mirostat: 2, mirostatTau: 3, mirostatEta: 0.2 },
    { repeatLastN: -1 },
    { repeatLastN: 64 },
    { dryMultiplier: 0.8, dryBase: 2, dryAllowedLength: 0, dryPenaltyLastN: 100 },
    { allowedTokenIds: [0, 99] },
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

  it('takes a negative top-n-sigma for none', () => {
    expect(accepted({ topNSigma: -1 }).topNSigma).toBe(0);
  });

  it('takes the order of samplers in llama.cpp’s names, their variants and its letters', () => {
    expect(accepted({ samplers: ['dry', 'top-k', 'typical', 'nucleus', 'temp'] }).samplers).toEqual([
      'dry',
      'top_k',
      'typ_p',
      'top_p',
      'temperature',
    ]);
    expect(accepted({ samplers: 'edskypmxt' }).samplers).toEqual(samplerNames);
    expect(accepted({ samplers: [] }).samplers).toEqual([]);
  });

  it('spells bad words, and sequence breakers only where DRY is on', () => {
    const spelling = {
      wordTokens: (word: string) => [[word.length], [9, word.length]],
      breakerTokens: (text: string) => [[text.codePointAt(0) as number]],
    };
    const spelled = (request: SamplingRequest) => {
      const validation = validateSampling(request, { ...context, spelling });
      return validation.ok ? validation.parameters : undefined;
    };
    expect(spelled({ badWords: ['ab', 'abc'] })?.badWords).toEqual([[2], [9, 2], [3], [9, 3]]);
    expect(spelled({ drySequenceBreakers: ['a'] })?.drySequenceBreakers).toEqual([]);
    expect(spelled({ dryMultiplier: 1, drySequenceBreakers: ['a'] })?.drySequenceBreakers).toEqual([[97]]);
    // A line break, a colon, a quotation mark, an asterisk.
    expect(spelled({ dryMultiplier: 1 })?.drySequenceBreakers).toEqual([[10], [58], [34], [42]]);
  });

  it('looks each sequence breaker up once, and none after too many sequences', () => {
    const looked: string[] = [];
    const breakerTokens = (text: string) => {
      looked.push(text);
      return text === 'many' ? Array(65_537).fill([1]) : [[2]];
    };
    const spelling = { wordTokens: () => [], breakerTokens };
    const request = { dryMultiplier: 1, drySequenceBreakers: ['a', 'b', 'a', 'many', 'c'] };
    expect(validateSampling(request, { ...context, spelling })).toMatchObject({
      ok: false,
      parameter: 'drySequenceBreakers',
    });
    expect(looked).toEqual(['a', 'b', 'many']);
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
    ['dynatempRange', { dynatempRange: -1 }],
    ['dynatempExponent', { dynatempExponent: Number.NaN }],
    ['topNSigma', { topNSigma: Number.NaN }],
    ['xtcProbability', { xtcProbability: 1.1 }],
    ['xtcThreshold', { xtcThreshold: -0.1 }],
    ['minKeep', { minKeep: 0.5 }],
    ['mirostat', { mirostat: 3 }],
    ['mirostatTau', { mirostatTau: -1 }],
    ['mirostatEta', { mirostatEta: Infinity }],
    ['samplers', { samplers: ['infill'] }],
    ['samplers', { samplers: 'kz' }],
    ['samplers', { samplers: 'kk' }],
    ['repeatLastN', { repeatLastN: -2 }],
    ['dryMultiplier', { dryMultiplier: -1 }],
    ['dryBase', { dryBase: 0.5 }],
    ['dryAllowedLength', { dryAllowedLength: -1 }],
    ['dryPenaltyLastN', { dryPenaltyLastN: 1.5 }],
    ['drySequenceBreakers', { drySequenceBreakers: [''] }],
    ['drySequenceBreakers', { drySequenceBreakers: ['a'.repeat(41)] }],
    ['drySequenceBreakers', { drySequenceBreakers: Array.from({ length: 33 }, String) }],
    ['badWords', { badWords: 'x' as unknown as string[] }],
    ['allowedTokenIds', { allowedTokenIds: [] }],
    ['allowedTokenIds', { allowedTokenIds: [100] }],
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
