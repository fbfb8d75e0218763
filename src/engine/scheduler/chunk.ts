// Cuts the step's prefill tokens into chunks. Most of them go to the most urgent prompt, so that prompts
// finish one after the other; the rest goes to shorter prompts and to those just admitted, so that a short
// prompt need not wait for a long one.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { LONGEST_OVERTAKING } from './flow.ts';
import type { Sequence } from './sequence.ts';
import type { ShownImages } from './shown-images.ts';

/** Smallest share worth a place in the step. */
export const MINIMUM_SHARE = BLOCK_TOKENS / 2;

/** The share of `left` tokens for the most urgent prompt; `others` says whether more prompts want some. */
export function leadingShare(left: number, others: boolean): number {
  if (!others) return left;
  return left - Math.min(Math.floor(left / 2), Math.max(MINIMUM_SHARE, Math.floor(left / 4)));
}

/** The share of `left` tokens for a further prompt, 0 where too little is left to be worth it. */
export function furtherShare(left: number, remaining: number, others: boolean): number {
  const tokens = others ? Math.max(MINIMUM_SHARE, Math.ceil(left / 2)) : left;
  return Math.min(MINIMUM_SHARE, remaining) > left ? 0 : Math.min(left, tokens);
}

/**
 * The chunk of at most `tokens` tokens, from `start` on, of a sequence with `remaining` ones to compute. One
 * that does not reach the sequence's end ends at a block's end, unless that would cost more than a quarter of it.
 */
export function chunk(start: number, remaining: number, tokens: number): number {
  if (tokens >= remaining) return remaining;
  const whole = tokens - ((start + tokens) % BLOCK_TOKENS);
  return 4 * whole >= 3 * tokens ? whole : tokens;
}

/**
 * The same of a chunk of `tokens` that may not end within an image whose tokens see each other: it ends before the image. One
 * that begins with the image has all of it, if it `mayExceed` its tokens, or nothing.
 */
export function chunkOfImages(
  images: ShownImages | undefined,
  start: number,
  tokens: number,
  mayExceed: boolean,
): number {
  const end = start + tokens;
  const before = images?.endBefore(end) ?? end;
  if (images === undefined || tokens === 0 || before === end) return tokens;
  if (before > start) return before - start;
  return mayExceed ? images.endAfter(end) - start : 0;
}

/**
 * Of sequences in order of urgency: the leading prompt, and those with less to compute than it, shortest first. The most urgent
 * one leads, or another of its tier, not more than a minute younger, whose account was served less.
 */
export function prefillOrder(
  running: readonly Sequence[],
  servedOf: (sequence: Sequence) => number,
): Sequence[] {
  const prefills = running.filter(({ remaining }) => remaining > 1);
  const [urgent] = prefills;
  if (urgent === undefined) return [];
  const leader = prefills.length === 1 ? urgent : leastServed(urgent, prefills, servedOf);
  const shorter = prefills.filter(({ remaining }) => remaining < leader.remaining);
  return [leader, ...shorter.sort((a, b) => a.remaining - b.remaining)];
}

function leastServed(
  urgent: Sequence,
  prefills: readonly Sequence[],
  servedOf: (sequence: Sequence) => number,
): Sequence {
  let leader = urgent;
  // Somebody more urgent waits for its blocks.
  if (urgent.rank < urgent.key) return leader;
  let least = servedOf(urgent);
  for (const sequence of prefills) {
    const { account, priority, key } = sequence;
    if (account === leader.account || priority !== urgent.priority) continue;
    const served = servedOf(sequence);
    if (served >= least || key - urgent.key > LONGEST_OVERTAKING) continue;
    leader = sequence;
    least = served;
  }
  return leader;
}

/** Computed tokens of the prefill that has come furthest: its tokens are the dearest. */
export function longestPrefill(running: readonly Sequence[]): number {
  return running.reduce(
    (most, { remaining, computed }) => (remaining > 1 ? Math.max(most, computed) : most),
    0,
  );
}
