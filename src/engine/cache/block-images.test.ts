import { describe, expect, it } from 'vitest';
import { BlockImages, firstImageToken } from './block-images.ts';
import { PrefixCache } from './prefix-cache.ts';
import { writeBlockKey } from './prefix-key.ts';

const places = (first: number, count: number) => Int32Array.from({ length: count }, (_, at) => first + at);
const shows = (key: string, first: number, count: number) => ({ key, places: places(first, count) });

describe('images of a block', () => {
  it('are the same for the same image at the same place alone', () => {
    const one = new BlockImages([shows('a', 30, 40)]);
    expect(one.at(64)).toBe(new BlockImages([shows('a', 30, 40)]).at(64));
    const others = [shows('b', 30, 40), shows('a', 29, 40), shows('a', 30, 41)];
    for (const other of others) {
      for (const offset of [0, 32, 64]) expect(new BlockImages([other]).at(offset)).not.toBe(one.at(offset));
    }
    expect(one.at(96)).toBe('');
  });

  it('name all that see each other, though a block has only a part of it', () => {
    const one = new BlockImages([shows('a', 0, 40), shows('b', 40, 40)]);
    const other = new BlockImages([shows('a', 0, 40), shows('c', 40, 40)]);
    expect(one.at(0)).not.toBe(other.at(0));
    const apart = [
      new BlockImages([shows('a', 0, 40)]),
      new BlockImages([shows('a', 0, 40), shows('c', 41, 40)]),
    ];
    expect(apart[0]?.at(0)).toBe(apart[1]?.at(0));
  });

  it('name all of a prompt whose tokens see each other', () => {
    const image = [shows('a', 0, 8)];
    const [one, other] = [
      places(0, 70),
      Int32Array.from(places(0, 70), (token) => (token === 69 ? 0 : token)),
    ];
    expect(new BlockImages(image, one).at(32)).toBe(new BlockImages(image, one).at(32));
    expect(new BlockImages(image, one).at(32)).not.toBe(new BlockImages(image, other).at(32));
  });

  it('cannot run together into those of others, whatever their keys', () => {
    const one = new BlockImages([shows('a"],[1,0,"b', 0, 2)]);
    const other = new BlockImages([shows('a', 0, 1), shows('b', 1, 1)]);
    expect(one.at(0)).not.toBe(other.at(0));
  });

  it('begin where their first token stands', () => {
    expect(firstImageToken(new BlockImages([shows('a', 37, 3)]).at(32))).toBe(5);
    expect(firstImageToken(new BlockImages([shows('a', 7, 60)]).at(32))).toBe(0);
    expect(firstImageToken('')).toBe(32);
  });
});

describe('a prefix cache of blocks with images', () => {
  const tokens = new Int32Array(32).fill(7);

  it('finds a block by what it shows, and never by a collision of hashes', () => {
    const cache = new PrefixCache(4);
    const root = cache.root('');
    cache.insert(0, root, tokens, 0, 'one');
    expect(cache.find(root, tokens, 0, 'one')).toBe(0);
    expect(cache.find(root, tokens, 0, 'two')).toBeUndefined();
    expect(cache.find(root, tokens, 0)).toBeUndefined();
    // Whatever the hash, the text is compared.
    expect(cache.holds(0, root, tokens, 0, 'two')).toBe(false);
    cache.forget(0);
    cache.insert(0, root, tokens, 0);
    expect(cache.find(root, tokens, 0, 'one')).toBeUndefined();
    expect(cache.find(root, tokens, 0)).toBe(0);
  });

  it('says that a prompt differs from where its image stands', () => {
    const cache = new PrefixCache(4);
    const root = cache.root('');
    const [one, other] = ['a', 'b'].map((key) => new BlockImages([shows(key, 20, 12)]).at(0));
    cache.insert(0, root, tokens, 0, one);
    expect(cache.nearest(root, tokens, 0, other)).toBe(20);
    expect(cache.nearest(root, tokens, 0, one)).toBe(32);
  });

  it('publishes keys that tell images apart, the same in every process', () => {
    const keyOf = (images: string) => {
      const key = new Int32Array(2);
      writeBlockKey(Int32Array.of(1, 2), 0, tokens, 0, key, 0, images);
      return key.join();
    };
    expect(new Set(['', 'one', 'two'].map(keyOf)).size).toBe(3);
    const cache = new PrefixCache(4);
    cache.startEvents();
    const root = cache.root('');
    cache.insert(0, root, tokens, 0, 'one');
    const change = cache.takeEvents();
    // Those that come later are told the same.
    expect(cache.startEvents()).toEqual({
      kind: 'all',
      keys: change?.kind === 'change' ? change.entered : undefined,
    });
  });
});
