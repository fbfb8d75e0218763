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

/**
 * The sequence breakers of a request. What follows their first tokens is one trie for all: many tokens end with the
 * beginning of a text, and all go on with the same rest of it.
 */
export interface Breakers {
  readonly tails: TailNode;
  /** By the first token, where its tails end in the trie. */
  readonly ends: ReadonlyMap<number, ReadonlySet<TailNode>>;
}

type TailNode = Map<number, TailNode>;

export function breakersOf({ drySequenceBreakers }: SamplingParameters): Breakers {
  const tails: TailNode = new Map();
  const ends = new Map<number, Set<TailNode>>();
  for (const sequence of drySequenceBreakers) {
    const [head] = sequence;
    if (head === undefined) continue;
    const end = addTail(tails, sequence);
    const own = ends.get(head);
    if (own === undefined) ends.set(head, new Set([end]));
    else own.add(end);
  }
  return { tails, ends };
}

/** Adds what follows the first token, and returns where it ends. */
function addTail(tails: TailNode, sequence: readonly number[]): TailNode {
  let node = tails;
  for (let at = 1; at < sequence.length; at++) {
    const token = sequence[at] as number;
    const next: TailNode = node.get(token) ?? new Map();
    node.set(token, next);
    node = next;
  }
  return node;
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
    const length = tailLength(backwards, at, breakers);
    if (length !== undefined) return at - length;
  }
  return backwards.length;
}

/** The tokens that follow the one at a place, as the longest sequence breaker that begins there has them. */
function tailLength(backwards: Int32Array, at: number, { tails, ends }: Breakers): number | undefined {
  const own = ends.get(backwards[at] as number);
  if (own === undefined) return undefined;
  let longest: number | undefined;
  let node: TailNode | undefined = tails;
  for (let length = 0; node !== undefined; length++) {
    if (own.has(node)) longest = length;
    node = length < at ? node.get(backwards[at - 1 - length] as number) : undefined;
  }
  return longest;
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

function isBreaker(token: number, { tails, ends }: Breakers): boolean {
  return ends.get(token)?.has(tails) === true;
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
