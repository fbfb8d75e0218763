import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { chainKey, PrefixCache } from './prefix-cache.ts';

function tokens(seed: number): Int32Array {
  return Int32Array.from({ length: BLOCK_TOKENS }, (_, i) => (i * seed + seed) % 1000);
}

describe('PrefixCache', () => {
  it('finds a block by its tokens and the block before them', () => {
    const cache = new PrefixCache(4);
    const root = cache.root('');
    cache.insert(2, root, tokens(1), 0);
    cache.insert(0, 2, tokens(1), 0);
    expect(cache.find(root, tokens(1), 0)).toBe(2);
    expect(cache.find(2, tokens(1), 0)).toBe(0);
    expect(cache.find(0, tokens(1), 0)).toBeUndefined();
    expect(cache.find(root, tokens(2), 0)).toBeUndefined();
    expect(cache.parentOf(0)).toBe(2);
  });

  it('reads the 32 tokens at the offset and no others', () => {
    const cache = new PrefixCache(1);
    const long = Int32Array.of(9, 9, ...tokens(3), 8);
    cache.insert(0, cache.root(''), long, 2);
    expect(cache.find(cache.root(''), tokens(3), 0)).toBe(0);
  });

  it('keeps salts apart from the first block on', () => {
    const cache = new PrefixCache(2);
    cache.insert(0, cache.root('a'), tokens(1), 0);
    expect(cache.find(cache.root('b'), tokens(1), 0)).toBeUndefined();
    cache.insert(1, cache.root('b'), tokens(1), 0);
    expect(cache.find(cache.root('b'), tokens(1), 0)).toBe(1);
    expect(cache.find(cache.root('a'), tokens(1), 0)).toBe(0);
  });

  it('forgets one block and keeps the others, however they hash', () => {
    const count = 300;
    const cache = new PrefixCache(count);
    const root = cache.root('');
    for (let block = 0; block < count; block++) cache.insert(block, root, tokens(block + 1), 0);
    for (let block = 0; block < count; block += 3) cache.forget(block);
    for (let block = 0; block < count; block++) {
      expect(cache.find(root, tokens(block + 1), 0)).toBe(block % 3 === 0 ? undefined : block);
    }
    expect(cache.size).toBe(200);
    expect([...cache.blocks()].sort((a, b) => a - b)).toEqual(
      Array.from({ length: count }, (_, block) => block).filter((block) => block % 3 !== 0),
    );
    expect(() => cache.forget(0)).toThrow('not in the prefix cache');
  });

  it('gives no hit for other tokens with the same key', () => {
    const cache = new PrefixCache(2);
    const root = cache.root('');
    const seed = Math.imul(root, 0x9e3779b1);
    const [a, b] = [tokens(1), tokens(2)];
    // Each token changes the key reversibly, so the last one can be chosen to make the keys meet.
    const [beforeA, beforeB] = [a, b].map((each) => chainKey(seed, each, 0, BLOCK_TOKENS - 1)) as [
      number,
      number,
    ];
    b[BLOCK_TOKENS - 1] = beforeA ^ beforeB ^ (a[BLOCK_TOKENS - 1] as number);
    expect(chainKey(seed, b, 0, BLOCK_TOKENS)).toBe(chainKey(seed, a, 0, BLOCK_TOKENS));
    cache.insert(0, root, a, 0);
    expect(cache.find(root, b, 0)).toBeUndefined();
    cache.insert(1, root, b, 0);
    expect([cache.find(root, a, 0), cache.find(root, b, 0)]).toEqual([0, 1]);
    cache.forget(0);
    expect([cache.find(root, a, 0), cache.find(root, b, 0)]).toEqual([undefined, 1]);
  });

  it('gives no hit for the same tokens after another prefix with the same key', () => {
    const cache = new PrefixCache(3);
    const root = cache.root('');
    const seed = Math.imul(root, 0x9e3779b1);
    const [a, b] = [tokens(1), tokens(2)];
    const [beforeA, beforeB] = [a, b].map((each) => chainKey(seed, each, 0, BLOCK_TOKENS - 1)) as [
      number,
      number,
    ];
    b[BLOCK_TOKENS - 1] = beforeA ^ beforeB ^ (a[BLOCK_TOKENS - 1] as number);
    cache.insert(0, root, a, 0);
    cache.insert(1, root, b, 0);
    cache.insert(2, 0, tokens(3), 0);
    expect(cache.find(0, tokens(3), 0)).toBe(2);
    expect(cache.find(1, tokens(3), 0)).toBeUndefined();
  });
});
