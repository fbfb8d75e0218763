// Cuts the step's prefill tokens into chunks. The most urgent sequence gets half of what is left, the next
// half of the rest, and so on: long prompts go through nearly in order, and a short one that arrives behind
// them starts in the very next step.

import { BLOCK_TOKENS } from '../../compute/backend.ts';

/** Smallest share worth a place in the step. */
const MINIMUM_SHARE = BLOCK_TOKENS / 2;

/** The share of `left` tokens for one sequence; `others` says whether more sequences wait for a share. */
export function share(left: number, others: boolean): number {
  return others ? Math.min(left, Math.max(MINIMUM_SHARE, Math.ceil(left / 2))) : left;
}

/**
 * The chunk of at most `tokens` tokens, from `start` on, of a sequence with `remaining` ones to compute. One
 * that does not reach the sequence's end ends at a block's end, unless that would cost more than half of it.
 */
export function chunk(start: number, remaining: number, tokens: number): number {
  if (tokens >= remaining) return remaining;
  const whole = tokens - ((start + tokens) % BLOCK_TOKENS);
  return 2 * whole >= tokens ? whole : tokens;
}
