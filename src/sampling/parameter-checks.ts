// What is wrong with a value of a sampling parameter, in words that follow its name; undefined where nothing is.

import { isSamplerName, samplerNames } from './sampler-names.ts';

export interface LogitBias {
  readonly token: number;
  readonly bias: number;
}

export const MAX_COUNT = 2 ** 31 - 1;
export const MAX_LOGPROBS = 20;
/** More would make matching them cost as much as a small model's step. */
export const MAX_SEQUENCES = 65_536;

interface TextLimits {
  readonly texts: number;
  readonly characters: number;
}

const wordLimits: TextLimits = { texts: 1000, characters: 100 };
/** Each is looked up in the whole vocabulary. llama.cpp reads no more than 40 characters of one either. */
export const breakerLimits: TextLimits = { texts: 32, characters: 40 };

type Problem = string | undefined;

export function isCount(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_COUNT;
}

export function countFrom(least: number): string {
  return `must be a whole number from ${least} to ${MAX_COUNT}`;
}

export function checkCount(value: number): Problem {
  return isCount(value) ? undefined : countFrom(0);
}

/** -1 stands for all. */
export function checkLastTokens(value: number | undefined): Problem {
  return value === undefined || value === -1 || isCount(value) ? undefined : `${countFrom(0)}, or -1 for all`;
}

export function checkRange(value: number, low: number, high: number): Problem {
  return typeof value === 'number' && value >= low && value <= high
    ? undefined
    : `must be a number from ${low} to ${high}`;
}

export function checkShare(value: number): Problem {
  return typeof value === 'number' && value > 0 && value <= 1
    ? undefined
    : 'must be a number above 0 and at most 1';
}

export function checkSwitch(value: boolean): Problem {
  return typeof value === 'boolean' ? undefined : 'must be true or false';
}

export function checkLogprobs(value: number | undefined): Problem {
  return value === undefined || (isCount(value) && value <= MAX_LOGPROBS)
    ? undefined
    : `must be a whole number from 0 to ${MAX_LOGPROBS}`;
}

export function checkIds(ids: readonly number[], vocabSize: number): Problem {
  const unknown = ids.find((id) => !isCount(id) || id >= vocabSize);
  return unknown === undefined
    ? undefined
    : `${unknown} is no token id; the model's ids are 0 to ${vocabSize - 1}`;
}

export function checkAllowed(ids: readonly number[] | undefined, vocabSize: number): Problem {
  if (ids === undefined) return undefined;
  return ids.length === 0 ? 'must name at least one token' : checkIds(ids, vocabSize);
}

export function checkSequences(sequences: readonly (readonly number[])[], vocabSize: number): Problem {
  if (sequences.length > MAX_SEQUENCES) return 'has more sequences of tokens than can be matched';
  return checkIds(sequences.flat(), vocabSize);
}

export function checkTexts(
  texts: readonly string[] | undefined,
  { texts: most, characters } = wordLimits,
): Problem {
  if (texts === undefined) return undefined;
  const isList = Array.isArray(texts) && texts.every((text) => typeof text === 'string' && text !== '');
  if (!isList) return 'must be a list of texts, none of them empty';
  if (texts.length > most) return `has ${texts.length} texts; ${most} are possible`;
  return texts.some(({ length }) => length > characters)
    ? `has a text of more than ${characters} characters`
    : undefined;
}

export function checkBias(biases: readonly LogitBias[], vocabSize: number): Problem {
  const ids = biases.map(({ token }) => token);
  const problem = checkIds(ids, vocabSize);
  if (problem !== undefined) return problem;
  if (new Set(ids).size < ids.length) return 'names a token twice';
  const extreme = biases.find(({ bias }) => checkRange(bias, -100, 100) !== undefined);
  return extreme === undefined ? undefined : `token ${extreme.token}: must be a number from -100 to 100`;
}

export function checkSamplers(names: readonly string[] | undefined): Problem {
  const unknown = names?.find((name) => !isSamplerName(name));
  if (unknown !== undefined) return `'${unknown}' is none of ${samplerNames.join(', ')}`;
  return new Set(names).size < (names?.length ?? 0) ? 'names a sampler twice' : undefined;
}

/** Numbers beyond 2^53 have already lost digits, so only a bigint may be larger. */
export function isSeed(seed: number | bigint | undefined): seed is number | bigint {
  if (typeof seed === 'bigint') return seed >= -(2n ** 63n) && seed < 2n ** 64n;
  return Number.isSafeInteger(seed);
}

export function checkSeed(seed: number | bigint | undefined): Problem {
  return seed === undefined || isSeed(seed) ? undefined : 'must be an integer of 64 bits given in full';
}
