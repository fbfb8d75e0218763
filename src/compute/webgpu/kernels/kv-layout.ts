// How keys and values of a layer lie in its buffer, as words: block after block, head after head, first K, then V.
//
//   f16   K [fours of words][32 tokens][4 words]   V [8 fours of tokens][words][4 tokens]   a word is two values
//   q8    the same, followed by 32 scales                                                   a word is four values
//
// Scores have a token a lane, which reads four words of K at once; what is gathered has a word a lane, which reads four
// tokens of V at once. Neighbouring lanes read neighbouring fours.

import type { ModelSpec } from '../../../model/spec.ts';
import { BLOCK_TOKENS, type KvType } from '../../backend.ts';

export interface KvLayout {
  readonly type: KvType;
  readonly headSize: number;
  /** Values that share a word. */
  readonly perWord: number;
  /** Words of one token's values of one head. */
  readonly wordsPerToken: number;
  /** Fours of words of one token's keys of one head. */
  readonly keyFours: number;
  /** Words of K, and of both, of one head in one block. */
  readonly keyWords: number;
  readonly headWords: number;
  readonly blockWords: number;
}

export function kvLayout(type: KvType, headSize: number, kvHeadCount: number): KvLayout {
  const perWord = type === 'f16' ? 2 : 4;
  const wordsPerToken = Math.ceil(headSize / perWord);
  const keyFours = Math.ceil(wordsPerToken / 4);
  const scales = type === 'q8' ? BLOCK_TOKENS : 0;
  const keyWords = BLOCK_TOKENS * 4 * keyFours + scales;
  // Whole fours, so that the next head's keys start with one.
  const headWords = 4 * Math.ceil((keyWords + BLOCK_TOKENS * wordsPerToken + scales) / 4);
  return {
    type,
    headSize,
    perWord,
    wordsPerToken,
    keyFours,
    keyWords,
    headWords,
    blockWords: headWords * kvHeadCount,
  };
}

/** Bytes of a block in each cache of a model. */
export function cacheBlockBytes({ caches }: ModelSpec, type: KvType): number[] {
  return caches.map(({ headSize, headCount }) => 4 * kvLayout(type, headSize, headCount).blockWords);
}

/** Declares `unpackWord`, which gives a word's values, and `keyScale` and `valueScale` of a token. */
export function kvReader({ type, keyFours, keyWords, wordsPerToken }: KvLayout): string {
  return type === 'f16'
    ? /* wgsl */ `
fn unpackWord(word: u32) -> vec2<f32> { return unpack2x16float(word); }
fn keyScale(head: u32, token: u32) -> f32 { return 1.0; }
fn valueScale(head: u32, token: u32) -> f32 { return 1.0; }
`
    : /* wgsl */ `
fn unpackWord(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
fn keyScale(head: u32, token: u32) -> f32 { return bitcast<f32>(kv[head + ${128 * keyFours}u + token]); }
fn valueScale(head: u32, token: u32) -> f32 { return bitcast<f32>(kv[head + ${keyWords + 32 * wordsPerToken}u + token]); }
`;
}
