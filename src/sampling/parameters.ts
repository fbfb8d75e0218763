// What a request may ask of sampling, its defaults and limits. Checked once at the edge; the rest of this room trusts
// a SamplingParameters.

import {
  breakerLimits,
  checkAllowed,
  checkBias,
  checkCount,
  checkIds,
  checkLastTokens,
  checkLogprobs,
  checkRange,
  checkSamplers,
  checkSeed,
  checkSequences,
  checkShare,
  checkSwitch,
  checkTexts,
  countFrom,
  isCount,
  isSeed,
  type LogitBias,
  MAX_SEQUENCES,
} from './parameter-checks.ts';
import { type Seed, seedFrom } from './random.ts';
import { readSamplers, type SamplerName } from './sampler-names.ts';

export interface SamplingParameters {
  /** 0 to 100 (OpenAI stops at 2, local servers go on). Below 1e-5, as for vLLM, decoding is greedy. Default 1. */
  readonly temperature: number;
  /** Lets the temperature follow the entropy, from `temperature` minus this to plus this; 0 is off. Default 0. */
  readonly dynatempRange: number;
  /** How the temperature follows the entropy: the power of its share of the most possible. Default 1. */
  readonly dynatempExponent: number;
  /** Keeps the k most likely tokens; 0 is off (-1 in a request, too). Default 0. */
  readonly topK: number;
  /** Keeps the most likely tokens that together hold this share, at least one: 0 to 1, which is off. Default 1. */
  readonly topP: number;
  /** Removes tokens below this share of the highest probability: 0, which is off, to 1. Default 0. */
  readonly minP: number;
  /** Keeps the most typical tokens that hold this share: above 0, at most 1, which is off. Default 1. */
  readonly typicalP: number;
  /** Keeps logits within this many standard deviations of the highest; 0 is off (negative in a request, too). Default 0. */
  readonly topNSigma: number;
  /** How often XTC removes all tokens above its threshold but the least likely of them: 0, which is off, to 1. Default 0. */
  readonly xtcProbability: number;
  /** The probability from which XTC removes tokens; above 0.5 it removes none. Default 0.1. */
  readonly xtcThreshold: number;
  /** Top-p, min-p, typical-p and XTC leave at least this many tokens. Default 0. */
  readonly minKeep: number;
  /** 1 and 2 hold the surprise of the answer near `mirostatTau` in place of the filters above; 0 is off. Default 0. */
  readonly mirostat: number;
  /** The surprise that mirostat aims at, in bits. Default 5. */
  readonly mirostatTau: number;
  /** How fast mirostat learns. Default 0.1. */
  readonly mirostatEta: number;
  /** The samplers that apply, in their order. Default: all, with the temperature before the filters. */
  readonly samplers: readonly SamplerName[] | undefined;
  /**
   * Divides (multiplies, if negative) the logits of all tokens seen, also in the prompt: 0.01 to 100; 1 is off.
   * Default 1.
   */
  readonly repetitionPenalty: number;
  /**
   * How many of the last tokens, prompt and answer alike, all penalties count, as in llama.cpp; -1 for all. Default: repetition
   * counts prompt and answer, presence and frequency the answer.
   */
  readonly repeatLastN: number | undefined;
  /** Subtracted from the logits of tokens already generated: -2 to 2. Default 0. */
  readonly presencePenalty: number;
  /** Subtracted once per time a token was generated: -2 to 2. Default 0. */
  readonly frequencyPenalty: number;
  /** DRY subtracts multiplier x base^(length - allowed length) where a token would go on with a repetition; 0 is off. Default 0. */
  readonly dryMultiplier: number;
  readonly dryBase: number;
  /** Repetitions shorter than this cost nothing. Default 2. */
  readonly dryAllowedLength: number;
  /** How many of the last tokens DRY looks at; -1 for all, 0 is off. Default -1. */
  readonly dryPenaltyLastN: number;
  /** Token sequences that no repetition reaches across. */
  readonly drySequenceBreakers: readonly (readonly number[])[];
  /** Added to logits: -100 to 100, no token twice. Default none. */
  readonly logitBias: readonly LogitBias[];
  /** Token sequences that the answer never has. Default none. */
  readonly badWords: readonly (readonly number[])[];
  /** The only tokens that the answer may have. Default: all. */
  readonly allowedTokenIds: readonly number[] | undefined;
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

type Spelled = 'seed' | 'samplers' | 'badWords' | 'drySequenceBreakers';

/** As a client sends it. The seed is an integer of 64 bits, signed or not; samplers are names, or llama.cpp's letters. */
export type SamplingRequest = {
  readonly [Name in keyof Omit<SamplingParameters, Spelled>]?: SamplingParameters[Name] | undefined;
} & {
  readonly seed?: number | bigint | undefined;
  readonly samplers?: string | readonly string[] | undefined;
  readonly badWords?: readonly string[] | undefined;
  /** Default: a line break, a colon, a quotation mark, an asterisk. */
  readonly drySequenceBreakers?: readonly string[] | undefined;
};

/** Parameters for which an operator or a model may set defaults. */
export const defaultableNames = [
  'temperature',
  'dynatempRange',
  'dynatempExponent',
  'topK',
  'topP',
  'minP',
  'typicalP',
  'topNSigma',
  'xtcProbability',
  'xtcThreshold',
  'minKeep',
  'mirostat',
  'mirostatTau',
  'mirostatEta',
  'repetitionPenalty',
  'repeatLastN',
  'presencePenalty',
  'frequencyPenalty',
  'dryMultiplier',
  'dryBase',
  'dryAllowedLength',
  'dryPenaltyLastN',
] as const satisfies readonly (keyof SamplingRequest)[];

export type SamplingDefaults = Pick<SamplingRequest, (typeof defaultableNames)[number]>;

/** The tokens of texts: the caller knows the tokenizer, this room does not. */
export interface Spelling {
  /** Every way a word may be written. */
  wordTokens(word: string): readonly (readonly number[])[];
  /** Every sequence of tokens in which the text is found. */
  breakerTokens(text: string): readonly (readonly number[])[];
}

interface SamplingContext {
  readonly vocabSize: number;
  /** Used where the request has no seed. The caller chooses it: this room has no randomness. */
  readonly freshSeed: Seed;
  /** Absent: texts of a request have no tokens. */
  readonly spelling?: Spelling | undefined;
}

export type SamplingValidation =
  | { readonly ok: true; readonly parameters: SamplingParameters }
  | { readonly ok: false; readonly parameter: keyof SamplingParameters; readonly problem: string };

export const MAX_TEMPERATURE = 100;
/** Keeps float32 logits up to 2^121 finite; 1e-39 would make infinities, from which nothing can be sampled. */
export const MIN_REPETITION_PENALTY = 0.01;
export const MAX_REPETITION_PENALTY = 100;

const DEFAULT_BREAKERS = ['\n', ':', '"', '*'];

/** Temperatures below this sample greedily: the division would only lose digits. */
export const GREEDY_BELOW = 1e-5;

const defaults: SamplingParameters = {
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
  repetitionPenalty: 1,
  repeatLastN: undefined,
  presencePenalty: 0,
  frequencyPenalty: 0,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryPenaltyLastN: -1,
  drySequenceBreakers: [],
  logitBias: [],
  badWords: [],
  allowedTokenIds: undefined,
  seed: { low: 0, high: 0 },
  logprobs: undefined,
  stopIds: [],
  minTokens: 0,
  maxTokens: undefined,
  ignoreEos: false,
};

/** For rows whose tokens are given, and only scored. */
export const greedyParameters: SamplingParameters = { ...defaults, temperature: 0 };

export function scoringParameters(alternatives: number): SamplingParameters {
  return { ...greedyParameters, logprobs: alternatives };
}

export function validateSampling(request: SamplingRequest, context: SamplingContext): SamplingValidation {
  for (const [parameter, limits] of [['badWords'], ['drySequenceBreakers', breakerLimits]] as const) {
    const problem = checkTexts(request[parameter], limits);
    if (problem !== undefined) return { ok: false, parameter, problem };
  }
  const parameters = withDefaults(request, context);
  for (const [name, check] of Object.entries(checks(request, context.vocabSize))) {
    const parameter = name as keyof SamplingParameters;
    const problem = check(parameters[parameter] as never, parameters);
    if (problem !== undefined) return { ok: false, parameter, problem };
  }
  return { ok: true, parameters };
}

function withDefaults(request: SamplingRequest, context: SamplingContext): SamplingParameters {
  const { samplers, badWords = [], seed, drySequenceBreakers = DEFAULT_BREAKERS, ...same } = request;
  const given = Object.fromEntries(
    Object.entries(same).filter(([name, value]) => value !== undefined && Object.hasOwn(defaults, name)),
  );
  const all: SamplingParameters = { ...defaults, ...given };
  const { spelling } = context;
  const hasDry = all.dryMultiplier !== 0 && all.dryPenaltyLastN !== 0;
  return {
    ...all,
    topK: all.topK === -1 ? 0 : all.topK,
    topNSigma: all.topNSigma < 0 ? 0 : all.topNSigma,
    samplers: samplers === undefined ? undefined : (readSamplers(samplers) as readonly SamplerName[]),
    badWords: badWords.flatMap((word) => spelling?.wordTokens(word) ?? []),
    drySequenceBreakers: hasDry && spelling !== undefined ? breakersOf(drySequenceBreakers, spelling) : [],
    seed: isSeed(seed) ? seedFrom(BigInt(seed)) : context.freshSeed,
  };
}

/** Not all of them where they are too many, which is refused. */
function breakersOf(texts: readonly string[], spelling: Spelling): readonly (readonly number[])[] {
  const sequences: (readonly number[])[] = [];
  for (const text of new Set(texts)) {
    if (sequences.length > MAX_SEQUENCES) break;
    for (const tokens of spelling.breakerTokens(text)) sequences.push(tokens);
  }
  return sequences;
}

type Checks = {
  readonly [Name in keyof SamplingParameters]: (
    value: SamplingParameters[Name],
    all: SamplingParameters,
  ) => string | undefined;
};

function checks({ seed }: SamplingRequest, vocabSize: number): Checks {
  return {
    temperature: (value) => checkRange(value, 0, MAX_TEMPERATURE),
    dynatempRange: (value) => checkRange(value, 0, MAX_TEMPERATURE),
    dynatempExponent: (value) => checkRange(value, 0, 100),
    topK: (value) => (isCount(value) ? undefined : `${countFrom(1)}, or 0 or -1 for all tokens`),
    topP: (value) => checkRange(value, 0, 1),
    minP: (value) => checkRange(value, 0, 1),
    typicalP: checkShare,
    topNSigma: (value) => checkRange(value, 0, 1e6),
    xtcProbability: (value) => checkRange(value, 0, 1),
    xtcThreshold: (value) => checkRange(value, 0, 1),
    minKeep: checkCount,
    mirostat: (value) => ([0, 1, 2].includes(value) ? undefined : 'must be 0, 1 or 2'),
    mirostatTau: (value) => checkRange(value, 0, 100),
    mirostatEta: (value) => checkRange(value, 0, 10),
    samplers: checkSamplers,
    repetitionPenalty: (value) => checkRange(value, MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY),
    repeatLastN: checkLastTokens,
    presencePenalty: (value) => checkRange(value, -2, 2),
    frequencyPenalty: (value) => checkRange(value, -2, 2),
    dryMultiplier: (value) => checkRange(value, 0, 100),
    dryBase: (value) => checkRange(value, 1, 100),
    dryAllowedLength: checkCount,
    dryPenaltyLastN: checkLastTokens,
    drySequenceBreakers: (value) => checkSequences(value, vocabSize),
    logitBias: (value) => checkBias(value, vocabSize),
    badWords: (value) => checkSequences(value, vocabSize),
    allowedTokenIds: (value) => checkAllowed(value, vocabSize),
    seed: () => checkSeed(seed),
    logprobs: checkLogprobs,
    stopIds: (value) => checkIds(value, vocabSize),
    minTokens: checkCount,
    maxTokens: checkMaxTokens,
    ignoreEos: checkSwitch,
  };
}

function checkMaxTokens(
  value: number | undefined,
  { minTokens }: Pick<SamplingParameters, 'minTokens'>,
): string | undefined {
  if (value === undefined) return undefined;
  if (!isCount(value) || value === 0) return countFrom(1);
  return value >= minTokens ? undefined : `must not be below the minimum of ${minTokens} tokens`;
}
