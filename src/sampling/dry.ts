// DRY ("don't repeat yourself"): the longer the repetition that a token would go on with, the more its logit loses. The
// definition is llama.cpp's, so that its settings mean the same here.

import type { SamplingParameters } from './parameters.ts';
import type { TokenPenalties } from './sample-row.ts';

/** Far beyond any logit, and finite: a token that must come for want of others still can. */
const MOST_PENALTY = 1e30;

const none: TokenPenalties = { tokens: [], penalties: [] };

export function usesDry({ dryMultiplier, dryPenaltyLastN, samplers }: SamplingParameters): boolean {
  return dryMultiplier !== 0 && dryPenaltyLastN !== 0 && (samplers?.includes('dry') ?? true);
}

/** The sequence breakers of a request, by their first token. */
export type Breakers = ReadonlyMap<number, readonly (readonly number[])[]>;

export function breakersOf({ drySequenceBreakers }: SamplingParameters): Breakers {
  const byHead = new Map<number, (readonly number[])[]>();
  for (const [head, ...tail] of drySequenceBreakers) {
    if (head === undefined) continue;
    const tails = byHead.get(head);
    if (tails === undefined) byHead.set(head, [tail]);
    else tails.push(tail);
  }
  return byHead;
}

/** What the next token loses after `history`, which is prompt and answer. */
export function dryPenalties(
  history: ArrayLike<number>,
  parameters: SamplingParameters,
  breakers: Breakers,
): TokenPenalties {
  const { dryPenaltyLastN: lastN, dryAllowedLength: allowed } = parameters;
  const count = lastN === -1 ? history.length : Math.min(history.length, lastN);
  if (count <= allowed) return none;
  const backwards = Int32Array.from({ length: count }, (_, i) => history[history.length - 1 - i] as number);
  const longest = lengthSinceBreaker(backwards, breakers);
  if (longest < allowed) return none;
  const lengths = repeatLengths(backwards, longest, allowed);
  const tokens = [...lengths.keys()].filter((token) => !isBreaker(token, breakers));
  return {
    tokens,
    penalties: tokens.map((token) => penaltyOf((lengths.get(token) as number) - allowed, parameters)),
  };
}

/** How many of the last tokens have no sequence breaker among them; all where there is none. */
function lengthSinceBreaker(backwards: Int32Array, breakers: Breakers): number {
  for (let at = 0; at < backwards.length; at++) {
    const tails = breakers.get(backwards[at] as number) ?? [];
    const matching = tails.filter(
      (tail) => tail.length <= at && tail.every((token, i) => token === backwards[at - 1 - i]),
    );
    if (matching.length > 0) return at - Math.max(...matching.map(({ length }) => length));
  }
  return backwards.length;
}

/** By token, the longest end of the text that stood before it elsewhere; `most` at most, none below `least`. */
function repeatLengths(backwards: Int32Array, most: number, least: number): Map<number, number> {
  const lengths = new Map<number, number>();
  const common = commonLengths(backwards);
  for (let shift = 1; shift < common.length; shift++) {
    const length = Math.min(common[shift] as number, most);
    if (length < least) continue;
    const next = backwards[shift - 1] as number;
    lengths.set(next, Math.max(length, lengths.get(next) ?? 0));
  }
  return lengths;
}

/** The Z function: how many tokens from each place on are the same as from the first on. */
function commonLengths(tokens: Int32Array): Int32Array {
  const lengths = new Int32Array(tokens.length);
  let left = 0;
  let end = 0;
  for (let at = 1; at < tokens.length; at++) {
    let length = at < end ? Math.min(lengths[at - left] as number, end - at) : 0;
    while (at + length < tokens.length && tokens[length] === tokens[at + length]) length++;
    lengths[at] = length;
    if (at + length > end) {
      left = at;
      end = at + length;
    }
  }
  return lengths;
}

function isBreaker(token: number, breakers: Breakers): boolean {
  return breakers.get(token)?.some(({ length }) => length === 0) === true;
}

/** The power by squaring: Math.pow promises no bits. */
function penaltyOf(exponent: number, { dryMultiplier, dryBase }: SamplingParameters): number {
  let power = 1;
  let square = dryBase;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) power = Math.min(power * square, MOST_PENALTY);
    square = Math.min(square * square, MOST_PENALTY);
  }
  return Math.fround(Math.min(dryMultiplier * power, MOST_PENALTY));
}
