// How keys and values of a layer lie in its buffer, as words: block after block, head after head, first K, then V.
//
//   f16   K [pairs of values][32 tokens]   V [32 tokens][pairs]
//   q8    K [fours of values][32 tokens], 32 scales   V [32 tokens][fours], 32 scales
//
// K has one token a lane, V some values a lane: each is read as it is used.

import type { KvType } from '../../backend.ts';
import { BLOCK_TOKENS } from '../../backend.ts';

export interface KvLayout {
  readonly type: KvType;
  readonly headSize: number;
  /** Values that share a word. */
  readonly perWord: number;
  /** Words of one token's keys of one head. */
  readonly wordsPerToken: number;
  /** Words of K, and of V, of one head in one block. */
  readonly partWords: number;
  /** Words of one block, all heads. */
  readonly blockWords: number;
}

export function kvLayout(type: KvType, headSize: number, kvHeadCount: number): KvLayout {
  const perWord = type === 'f16' ? 2 : 4;
  const wordsPerToken = Math.ceil(headSize / perWord);
  const partWords = BLOCK_TOKENS * (wordsPerToken + (type === 'q8' ? 1 : 0));
  return { type, headSize, perWord, wordsPerToken, partWords, blockWords: 2 * partWords * kvHeadCount };
}

/** Declares `unpackWord`, which gives a word's values, and `scaleOf`, which gives a token's scale. */
export function kvReader({ type, wordsPerToken }: KvLayout): string {
  return type === 'f16'
    ? /* wgsl */ `
fn unpackWord(word: u32) -> vec2<f32> { return unpack2x16float(word); }
fn scaleOf(part: u32, token: u32) -> f32 { return 1.0; }
`
    : /* wgsl */ `
fn unpackWord(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
fn scaleOf(part: u32, token: u32) -> f32 { return bitcast<f32>(kv[part + ${32 * wordsPerToken}u + token]); }
`;
}
