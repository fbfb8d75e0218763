// What a request may ask of sampling, its defaults and limits. Checked once at the edge; the rest of this room trusts
// a SamplingParameters.

import { type Seed, seedFrom } from './random.ts';

interface LogitBias {
  readonly token: number;
  readonly bias: number;
}

export interface SamplingParameters {
  /** 0 to 100 (OpenAI stops at 2, local servers go on). Below 1e-5, as for vLLM, decoding is greedy. Default 1. */
  readonly temperature: number;
  /** Keeps the k most likely tokens; 0 is off (-1 in a request, too). Default 0. */
  readonly topK: number;
  /** Keeps the most likely tokens that together hold this share, at least one: 0 to 1, which is off. Default 1. */
  readonly topP: number;
  /** Removes tokens below this share of the highest probability: 0, which is off, to 1. Default 0. */
  readonly minP: number;
  /** Keeps the most typical tokens that hold this share: above 0, at most 1, which is off. Default 1. */
  readonly typicalP: number;
  /**
   * Divides (multiplies, if negative) the logits of all tokens seen, also in the prompt: 0.01 to 100; 1 is off.
   * Default 1.
   */
  readonly repetitionPenalty: number;
  /** Subtracted from the logits of tokens already generated: -2 to 2. Default 0. */
  readonly presencePenalty: number;
  /** Subtracted once per time a token was generated: -2 to 2. Default 0. */
  readonly frequencyPenalty: number;
  /** Added to logits: -100 to 100, no token twice. Default none. */
  readonly logitBias: readonly LogitBias[];
  readonly seed: Seed;
  /**
   * How many alternatives are reported with the sampled token's log-probability: 0 to 20; undefined reports nothing.
   */
  readonly logprobs: number | undefined;
  /** Tokens that end the answer, besides the model's end tokens. Default none. */
  readonly stopIds: readonly number[];
  /** No token may end the answer before it has this many. Default 0. */
  readonly minTokens: number;
  /** Undefined: the context length limits the answer. 0 where nothing is sampled at all. */
  readonly maxTokens: number | undefined;
  /** Treats the model's end tokens as any other. Default false. */
  readonly ignoreEos: boolean;
}

/** As a client sends it. The seed is an integer of 64 bits, signed or not. */
export type SamplingRequest = {
  readonly [Name in keyof Omit<SamplingParameters, 'seed'>]?: SamplingParameters[Name] | undefined;
} & { readonly seed?: number | bigint | undefined };

/** Parameters for which an operator or a model may set defaults. */
export const defaultableNames = [
  'temperature',
  'topK',
  'topP',
  'minP',
  'typicalP',
  'repetitionPenalty',
  'presencePenalty',
  'frequencyPenalty',
] as const satisfies readonly (keyof SamplingRequest)[];

export type SamplingDefaults = Pick<SamplingRequest, (typeof defaultableNames)[number]>;

interface SamplingContext {
  readonly vocabSize: number;
  /** Used where the request has no seed. The caller chooses it: this room has no randomness. */
  readonly freshSeed: Seed;
}

export type SamplingValidation =
  | { readonly ok: true; readonly parameters: SamplingParameters }
  | { readonly ok: false; readonly parameter: keyof SamplingParameters; readonly problem: string };

export const MAX_LOGPROBS = 20;
export const MAX_TEMPERATURE = 100;
/** Keeps float32 logits up to 2^121 finite; 1e-39 would make infinities, from which nothing can be sampled. */
export const MIN_REPETITION_PENALTY = 0.01;
export const MAX_REPETITION_PENALTY = 100;

const MAX_COUNT = 2 ** 31 - 1;

/** Temperatures below this sample greedily: the division would only lose digits. */
export const GREEDY_BELOW = 1e-5;

export function validateSampling(request: SamplingRequest, context: SamplingContext): SamplingValidation {
  const parameters = withDefaults(request, context);
  for (const [parameter, problem] of problems(request, parameters, context.vocabSize)) {
    if (problem !== undefined) return { ok: false, parameter, problem };
  }
  return { ok: true, parameters };
}

function withDefaults(request: SamplingRequest, context: SamplingContext): SamplingParameters {
  const topK = request.topK ?? 0;
  return {
    temperature: request.temperature ?? 1,
    topK: topK === -1 ? 0 : topK,
    topP: request.topP ?? 1,
    minP: request.minP ?? 0,
    typicalP: request.typicalP ?? 1,
    repetitionPenalty: request.repetitionPenalty ?? 1,
    presencePenalty: request.presencePenalty ?? 0,
    frequencyPenalty: request.frequencyPenalty ?? 0,
    logitBias: request.logitBias ?? [],
    seed: isSeed(request.seed) ? seedFrom(BigInt(request.seed)) : context.freshSeed,
    logprobs: request.logprobs,
    stopIds: request.stopIds ?? [],
    minTokens: request.minTokens ?? 0,
    maxTokens: request.maxTokens,
    ignoreEos: request.ignoreEos ?? false,
  };
}

type Problem = readonly [keyof SamplingParameters, string | undefined];

function problems(
  request: SamplingRequest,
  parameters: SamplingParameters,
  vocabSize: number,
): readonly Problem[] {
  return [
    ['temperature', checkRange(parameters.temperature, 0, MAX_TEMPERATURE)],
    ['topK', isCount(parameters.topK) ? undefined : `${countFrom(1)}, or 0 or -1 for all tokens`],
    ['topP', checkRange(parameters.topP, 0, 1)],
    ['minP', checkRange(parameters.minP, 0, 1)],
    ['typicalP', checkShare(parameters.typicalP)],
    [
      'repetitionPenalty',
      checkRange(parameters.repetitionPenalty, MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY),
    ],
    ['presencePenalty', checkRange(parameters.presencePenalty, -2, 2)],
    ['frequencyPenalty', checkRange(parameters.frequencyPenalty, -2, 2)],
    ['logitBias', checkBias(parameters.logitBias, vocabSize)],
    ['seed', checkSeed(request.seed)],
    ['logprobs', checkLogprobs(parameters.logprobs)],
    ['stopIds', checkIds(parameters.stopIds, vocabSize)],
    ['minTokens', isCount(parameters.minTokens) ? undefined : countFrom(0)],
    ['maxTokens', checkMaxTokens(parameters)],
    ['ignoreEos', typeof parameters.ignoreEos === 'boolean' ? undefined : 'must be true or false'],
  ];
}

function isCount(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MAX_COUNT;
}

function countFrom(least: number): string {
  return `must be a whole number from ${least} to ${MAX_COUNT}`;
}

function checkRange(value: number, low: number, high: number): string | undefined {
  return typeof value === 'number' && value >= low && value <= high
    ? undefined
    : `must be a number from ${low} to ${high}`;
}

function checkShare(value: number): string | undefined {
  return typeof value === 'number' && value > 0 && value <= 1
    ? undefined
    : 'must be a number above 0 and at most 1';
}

function checkLogprobs(value: number | undefined): string | undefined {
  return value === undefined || (isCount(value) && value <= MAX_LOGPROBS)
    ? undefined
    : `must be a whole number from 0 to ${MAX_LOGPROBS}`;
}

function checkMaxTokens({ minTokens, maxTokens }: SamplingParameters): string | undefined {
  if (maxTokens === undefined) return undefined;
  if (!isCount(maxTokens) || maxTokens === 0) return countFrom(1);
  return maxTokens >= minTokens ? undefined : `must not be below the minimum of ${minTokens} tokens`;
}

function checkIds(ids: readonly number[], vocabSize: number): string | undefined {
  const unknown = ids.find((id) => !isCount(id) || id >= vocabSize);
  return unknown === undefined
    ? undefined
    : `${unknown} is no token id; the model's ids are 0 to ${vocabSize - 1}`;
}

function checkBias(biases: readonly LogitBias[], vocabSize: number): string | undefined {
  const ids = biases.map(({ token }) => token);
  const problem = checkIds(ids, vocabSize);
  if (problem !== undefined) return problem;
  if (new Set(ids).size < ids.length) return 'names a token twice';
  const extreme = biases.find(({ bias }) => checkRange(bias, -100, 100) !== undefined);
  return extreme === undefined ? undefined : `token ${extreme.token}: must be a number from -100 to 100`;
}

/** Numbers beyond 2^53 have already lost digits, so only a bigint may be larger. */
function isSeed(seed: number | bigint | undefined): seed is number | bigint {
  if (typeof seed === 'bigint') return seed >= -(2n ** 63n) && seed < 2n ** 64n;
  return Number.isSafeInteger(seed);
}

function checkSeed(seed: number | bigint | undefined): string | undefined {
  return seed === undefined || isSeed(seed) ? undefined : 'must be an integer of 64 bits given in full';
}
