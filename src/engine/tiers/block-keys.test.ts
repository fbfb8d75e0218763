import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { BlockImages } from '../cache/block-images.ts';
import { PrefixCache } from '../cache/prefix-cache.ts';
import { Sequence } from '../scheduler/sequence.ts';
import { BlockKeys, type ModelIdentity, stateKey, tenantOf } from './block-keys.ts';

const identity: ModelIdentity = { model: 'm', adapters: ['one', 'other'] };
const tokens = Int32Array.from({ length: 3 * BLOCK_TOKENS + 1 }, (_, i) => i);

function sequence(salt = 'ann', adapter?: number, of = tokens): Sequence {
  return new Sequence({ id: 's', tokens: of, maxTokens: 1000, priority: 1, enqueuedMs: 0, salt, adapter });
}

function chainOf(holder: Sequence, own = identity): string[] {
  const keys = new BlockKeys(new PrefixCache(4), own);
  return keys.chain(holder, 3).map((key) => key.toString('hex'));
}

describe('keys of blocks below memory', () => {
  it('are the same of a sequence and of the blocks that it has in memory, asked for in any order', () => {
    const prefixes = new PrefixCache(8);
    const holder = sequence();
    let parent = prefixes.root(holder.salt);
    for (const [index, block] of [5, 2, 7].entries()) {
      prefixes.insert(block, parent, holder.storage, index * BLOCK_TOKENS);
      parent = block;
    }
    const keys = new BlockKeys(prefixes, identity);
    const last = keys.of(7);
    expect([keys.of(5).key, keys.of(2).key, last.key].map((key) => key.toString('hex'))).toEqual(
      chainOf(holder),
    );
    expect(last.tenant).toBe('ann');
  });

  it('come with the label by which others know the prefix, unless an adapter computed it', () => {
    const prefixes = new PrefixCache(8);
    for (const [first, holder] of [sequence(), sequence('ann', 0)].entries()) {
      let parent = prefixes.root(holder.salt);
      for (let index = 0; index < 3; index++) {
        prefixes.insert(3 * first + index, parent, holder.storage, index * BLOCK_TOKENS);
        parent = 3 * first + index;
      }
    }
    const keys = new BlockKeys(prefixes, identity);
    const labels = [2, 0, 1].map((block) => keys.of(block).label);
    const events = prefixes.startEvents();
    const published = events.kind === 'all' ? events.keys : new Int32Array(0);
    const known = Array.from({ length: published.length / 2 }, (_, at) => ({
      high: published[2 * at],
      low: published[2 * at + 1],
    }));
    expect(new Set(labels.map((label) => label?.high)).size).toBe(3);
    for (const label of labels) expect(known).toContainEqual(label);
    expect([3, 4, 5].map((block) => keys.of(block).label)).toEqual([undefined, undefined, undefined]);
  });

  it('differ by tokens, by what was before them, by tenant, salt, adapter, model and images', () => {
    const own = chainOf(sequence());
    const changed = tokens.slice();
    changed[BLOCK_TOKENS] = 7;
    const shown = sequence();
    Object.assign(shown, { images: { blocks: new BlockImages([{ key: 'cat', places: Int32Array.of(3) }]) } });
    const others = [sequence('bob'), sequence('ann:more'), sequence('ann', 0), sequence('ann', 1), shown].map(
      (one) => chainOf(one),
    );
    others.push(chainOf(sequence(), { ...identity, model: 'n' }));
    for (const [index, key] of own.entries()) for (const other of others) expect(other[index]).not.toBe(key);
    const late = chainOf(sequence('ann', undefined, changed));
    expect(late.map((key, index) => key === own[index])).toEqual([true, false, false]);
    const all = [own, ...others].flat();
    expect(new Set(all).size).toBe(all.length);
  });

  it('follow an adapter’s content, not its number', () => {
    const moved = { ...identity, adapters: ['other', 'one'] };
    expect(chainOf(sequence('ann', 1), moved)).toEqual(chainOf(sequence('ann', 0)));
    expect(() => chainOf(sequence('ann', 2))).toThrow('adapter 2');
  });

  it('are others for recurrent states, and know the tenant of every salt', () => {
    const key = Buffer.alloc(32, 1);
    expect(stateKey(key)).not.toEqual(key);
    expect(['3:ann:more', ':bob', ':', ''].map(tenantOf)).toEqual(['ann', 'bob', '', '']);
  });
});
