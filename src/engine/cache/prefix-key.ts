// The key of a prompt's prefix, the same in every process: a chain over (parent's key, 32 tokens) that begins with what model
// and salt give. 64 bits in two lanes of 32, high and low, as JavaScript multiplies these fast. Keys say where a prefix is
// probably held; they are no proof. Sharing blocks compares tokens, so a collision costs a wrong choice of worker, never a wrong answer.

import { BLOCK_TOKENS } from '../../compute/backend.ts';

/** A block, or a salt's root (negative). */
export type PrefixNode = number;

/** Numbers that a key takes in an array: its high lane, then its low one. */
export const KEY_LANES = 2;

/**
 * Writes the key that all prefixes of one model and salt begin with. `salt` is the one of the sequences, with whatever else
 * keeps prefixes apart, such as the adapter.
 */
export function writeRootKey(modelKey: string, salt: string, into: Int32Array, at: number): void {
  // With its length, so that no pair of texts runs together into another pair.
  const text = `${modelKey.length}:${modelKey}${salt}`;
  let high = 0x243f6a88;
  let low = 0x85a308d3 | 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = turnHigh(high, unit);
    low = turnLow(low, unit);
  }
  finish(high, low, into, at);
}

/** Writes the key of the block with the 32 tokens from `offset` on, and `images` (see BlockImages), going on from its parent's key. */
export function writeBlockKey(
  parents: Int32Array,
  parentAt: number,
  tokens: Int32Array,
  offset: number,
  into: Int32Array,
  at: number,
  images = '',
): void {
  let high = parents[parentAt] as number;
  let low = parents[parentAt + 1] as number;
  const end = offset + BLOCK_TOKENS;
  for (let i = offset; i < end; i++) {
    const token = tokens[i] as number;
    high = turnHigh(high, token);
    low = turnLow(low, token);
  }
  for (let i = 0; i < images.length; i++) {
    const unit = images.charCodeAt(i);
    high = turnHigh(high, unit);
    low = turnLow(low, unit);
  }
  finish(high, low, into, at);
}

// For a given value each is a bijection of the lane; they share neither factor nor shape, so that what collides in one lane
// does not in the other.

function turnHigh(lane: number, value: number): number {
  const product = Math.imul(lane ^ value, 0x85ebca6b);
  return product ^ (product >>> 15);
}

function turnLow(lane: number, value: number): number {
  const sum = (lane + Math.imul(value, 0x9e3779b1)) | 0;
  return Math.imul((sum << 13) | (sum >>> 19), 0xc2b2ae35);
}

/** Three rounds in which each lane takes up the other: whatever differs in one then shows in both. */
function finish(high: number, low: number, into: Int32Array, at: number): void {
  const first = high ^ scatter(low);
  const second = low ^ scatter(first);
  into[at] = first ^ scatter(second);
  into[at + 1] = second;
}

function scatter(lane: number): number {
  let bits = Math.imul(lane ^ (lane >>> 16), 0x7feb352d);
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
  return bits ^ (bits >>> 16);
}
