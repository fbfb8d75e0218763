import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { intersection, isAnyLeft, maskOf } from './token-mask.ts';

// What transformers' PrefixConstrainedLogitsProcessor forbids: tools/samplers/hugging_face_vectors.py.
const vectors: {
  readonly vocabSize: number;
  readonly allowed: readonly number[];
  readonly notAllowed: readonly number[];
} = JSON.parse(readFileSync(new URL('./hugging-face.vectors.json', import.meta.url), 'utf8'));

const { vocabSize, allowed, notAllowed } = vectors;
const idsOf = (mask: Uint32Array | undefined) =>
  Array.from({ length: vocabSize }, (_, id) => id).filter(
    (id) => mask === undefined || ((mask[id >>> 5] as number) >>> (id & 31)) & 1,
  );

describe('a mask', () => {
  it('allows the tokens that Hugging Face allows', () => {
    const ids = idsOf(maskOf(allowed, vocabSize));
    expect(ids).toEqual(allowed);
    expect(idsOf(undefined).filter((id) => !ids.includes(id))).toEqual(notAllowed);
    expect(maskOf(undefined, vocabSize)).toBeUndefined();
  });

  it('allows with another what both allow', () => {
    const one = maskOf([1, 2, 3], vocabSize);
    const other = maskOf([2, 3, 23], vocabSize);
    expect(idsOf(intersection(one, other))).toEqual([2, 3]);
    expect(intersection(undefined, other)).toBe(other);
    expect(intersection(one, undefined)).toBe(one);
    expect(isAnyLeft(one as Uint32Array, [1, 2])).toBe(true);
    expect(isAnyLeft(one as Uint32Array, [1, 2, 3])).toBe(false);
  });
});
