import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { BlockImages } from '../../engine/cache/block-images.ts';
import { BlockTables } from '../../engine/cache/block-tables.ts';
import { KEY_LANES } from '../../engine/cache/prefix-key.ts';
import { Sequence } from '../../engine/scheduler/sequence.ts';
import { promptKeys } from './prefix-keys.ts';

const tokensOf = (length: number, first = 0) => Int32Array.from({ length }, (_, i) => first + i);
const keysOf = (tokens: Int32Array, salt = ':') => promptKeys({ modelKey: 'model', salt, tokens });

function sequenceOf(tokens: Int32Array): Sequence {
  return new Sequence({ id: 'one', tokens, maxTokens: tokens.length + 1, priority: 1, enqueuedMs: 0 });
}

describe('the keys of a prompt', () => {
  it('are as many as blocks that an engine would find of it once it has computed the same prompt', () => {
    for (const length of [1, 31, 32, 33, 63, 64, 65, 96, 100]) {
      const tables = new BlockTables(16);
      const earlier = sequenceOf(tokensOf(length + 1));
      tables.grow(earlier, length + 1);
      tables.advance(earlier, length + 1);
      const found = tables.match(sequenceOf(tokensOf(length))).length;
      expect(keysOf(tokensOf(length)).length / KEY_LANES, `${length} tokens`).toBe(found);
    }
  });

  it('are fewer where earlier rows must be computed', () => {
    const tokens = tokensOf(100);
    const count = (firstRequiredPosition: number) =>
      promptKeys({ modelKey: 'model', salt: ':', tokens, firstRequiredPosition }).length / KEY_LANES;
    expect([0, 31, 32, 64, 99, 1000].map(count)).toEqual([0, 0, 1, 2, 3, 3]);
  });

  it('begin alike exactly as far as whole blocks are alike', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 199 }), (differsAt) => {
        const tokens = tokensOf(200);
        const other = tokens.slice();
        other[differsAt] = 7777;
        const [keys, others] = [keysOf(tokens), keysOf(other)];
        const same = Math.floor(differsAt / BLOCK_TOKENS) * KEY_LANES;
        expect(keys.subarray(0, same)).toEqual(others.subarray(0, same));
        for (let i = same; i < keys.length; i++) expect(keys[i]).not.toBe(others[i]);
      }),
    );
  });

  it('tell images apart from the first block that shows one', () => {
    const tokens = tokensOf(200);
    const shown = (key: string) => {
      const images = new BlockImages([{ key, places: tokensOf(40, 70) }]);
      return promptKeys({ modelKey: 'model', salt: ':', tokens, images });
    };
    const [keys, others] = [shown('a'), shown('b')];
    expect(shown('a')).toEqual(keys);
    const same = Math.floor(70 / BLOCK_TOKENS) * KEY_LANES;
    expect(keys.subarray(0, same)).toEqual(others.subarray(0, same));
    for (let i = same; i < keys.length; i++) expect(keys[i]).not.toBe(others[i]);
  });

  it('are of their salt alone', () => {
    const [keys, others] = [keysOf(tokensOf(100)), keysOf(tokensOf(100), ':other')];
    expect(keys.some((lane, i) => lane === others[i])).toBe(false);
  });
});
