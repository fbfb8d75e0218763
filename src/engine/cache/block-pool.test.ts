import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockPool } from './block-pool.ts';

function pool(blockCount: number): { pool: BlockPool; evicted: number[] } {
  const evicted: number[] = [];
  return { pool: new BlockPool(blockCount, (block) => evicted.push(block)), evicted };
}

/** Takes a block, puts content into the cache and lets it go. */
function cache(blocks: BlockPool, low: boolean): number {
  const block = blocks.take(low) as number;
  blocks.markCached(block);
  return block;
}

describe('BlockPool', () => {
  it('hands out every block once, then none', () => {
    const { pool: blocks } = pool(5);
    expect(Array.from({ length: 6 }, () => blocks.take(false))).toEqual([0, 1, 2, 3, 4, undefined]);
    expect(blocks.freeCount).toBe(0);
    expect(blocks.usedCount).toBe(5);
  });

  it('frees a block with its last reference only', () => {
    const { pool: blocks } = pool(2);
    const block = blocks.take(false) as number;
    blocks.retain(block, false);
    blocks.release(block);
    expect(blocks.freeCount).toBe(1);
    blocks.release(block);
    expect(blocks.freeCount).toBe(2);
    expect(() => blocks.release(block)).toThrow('released more often');
  });

  it('takes empty blocks first, then what LOW wrote, then the rest, least recently used first', () => {
    const { pool: blocks, evicted } = pool(6);
    const cached = [false, true, false, true].map((low) => cache(blocks, low));
    const empty = [blocks.take(false), blocks.take(false)] as number[];
    for (const block of [...cached, ...empty]) blocks.release(block);
    const [normal0, low1, normal2, low3] = cached;
    const taken = Array.from({ length: 6 }, () => blocks.take(false));
    expect(taken).toEqual([...empty.reverse(), low1, low3, normal0, normal2]);
    expect(evicted).toEqual([low1, low3, normal0, normal2]);
  });

  it('revives a cached block from the middle of its list, and keeps a LOW one longer once others use it', () => {
    const { pool: blocks, evicted } = pool(3);
    const [a, b, c] = [cache(blocks, true), cache(blocks, true), cache(blocks, true)];
    for (const block of [a, b, c]) blocks.release(block);
    blocks.retain(b, false);
    expect(blocks.references(b)).toBe(1);
    expect(blocks.cachedFreeCount).toBe(2);
    blocks.release(b);
    expect([blocks.take(true), blocks.take(true), blocks.take(true)]).toEqual([a, c, b]);
    expect(evicted).toEqual([a, c, b]);
  });

  it('keeps a block LOW while only LOW sequences use it, and never demotes one', () => {
    const { pool: blocks } = pool(2);
    const [low, normal] = [cache(blocks, true), cache(blocks, false)];
    for (const block of [low, normal]) blocks.retain(block, true);
    expect([low, normal].map((block) => blocks.isLowWritten(block))).toEqual([true, false]);
  });

  it('refuses to share an empty free block, to cache a free one, and a pool of nothing', () => {
    const { pool: blocks } = pool(1);
    expect(() => blocks.retain(0, false)).toThrow('cannot be shared');
    expect(() => blocks.markCached(0)).toThrow('cannot enter the cache');
    for (const count of [0, -1, 1.5, Number.NaN]) expect(() => pool(count)).toThrow(`got ${count}`);
  });

  it('holds no more than it may, drops free blocks when it may hold fewer, and takes them again when more', () => {
    const { pool: blocks, evicted } = pool(6);
    blocks.setLimit(4);
    expect(blocks.freeCount).toBe(4);
    const [a, b, c, d] = [cache(blocks, false), cache(blocks, true), blocks.take(false), blocks.take(false)];
    expect(blocks.take(false)).toBeUndefined();
    for (const block of [a, b, c] as number[]) blocks.release(block);
    expect([blocks.residentCount, blocks.usedCount, blocks.freeCount]).toEqual([4, 1, 3]);
    // The empty one goes first, then what LOW wrote, then the rest; what is in use goes when it is released.
    blocks.setLimit(0);
    expect(blocks.takeUncommitted()).toEqual([c, b, a]);
    expect(evicted).toEqual([b, a]);
    expect([blocks.residentCount, blocks.usedCount, blocks.freeCount]).toEqual([1, 1, 0]);
    blocks.release(d as number);
    expect(blocks.takeUncommitted()).toEqual([d]);
    expect(blocks.takeUncommitted()).toEqual([]);
    expect(blocks.residentCount).toBe(0);
    blocks.setLimit(100);
    expect(blocks.limit).toBe(6);
    expect(new Set(Array.from({ length: 6 }, () => blocks.take(false))).size).toBe(6);
  });

  it('behaves like four plain arrays', () => {
    const operation = fc.record({ kind: fc.nat({ max: 4 }), which: fc.nat(), low: fc.boolean() });
    fc.assert(
      fc.property(fc.array(operation, { size: 'max', maxLength: 200 }), (operations) => {
        const { pool: blocks, evicted } = pool(7);
        const model = new Model(7);
        for (const { kind, which, low } of operations) model.apply(blocks, kind, which, low);
        for (const list of ['empty', 'uncommitted', 'cached-low', 'cached'] as const) {
          expect([...blocks.blocksOf(list)]).toEqual(model.lists[list]);
        }
        expect(evicted).toEqual(model.evicted);
        const { empty, uncommitted, cached, 'cached-low': low } = model.lists;
        expect(blocks.residentCount).toBe(7 - uncommitted.length);
        const allowed = Math.min(uncommitted.length, Math.max(0, model.limit - blocks.residentCount));
        expect(blocks.freeCount).toBe(empty.length + cached.length + low.length + allowed);
      }),
      { numRuns: 500 },
    );
  });

  it('makes a pool of a million blocks usable at once', () => {
    const { pool: blocks } = pool(1_000_000);
    expect(blocks.take(false)).toBe(0);
    expect(blocks.freeCount).toBe(999_999);
  });
});

class Model {
  readonly lists = {
    empty: [] as number[],
    uncommitted: [] as number[],
    'cached-low': [] as number[],
    cached: [] as number[],
  };
  limit: number;
  readonly evicted: number[] = [];
  readonly #held = new Map<number, number>();
  readonly #cached = new Set<number>();
  readonly #low = new Set<number>();

  constructor(count: number) {
    this.lists.uncommitted = Array.from({ length: count }, (_, block) => block);
    this.limit = count;
  }

  apply(pool: BlockPool, kind: number, which: number, low: boolean): void {
    const held = [...this.#held.keys()];
    const block = held[which % Math.max(1, held.length)];
    if (kind === 0) this.#take(pool, low);
    else if (kind === 1) this.#revive(pool, which, low);
    else if (kind === 4) this.#setLimit(pool, which % 8);
    else if (block !== undefined && kind === 2) {
      pool.markCached(block);
      this.#cached.add(block);
    } else if (block !== undefined) this.#release(pool, block);
  }

  #take(pool: BlockPool, low: boolean): void {
    const { empty, uncommitted, 'cached-low': lowWritten, cached } = this.lists;
    const allowed = 7 - uncommitted.length < this.limit ? [uncommitted] : [];
    const list = [empty, ...allowed, lowWritten, cached].find((blocks) => blocks.length > 0);
    const block = list?.shift();
    expect(pool.take(low)).toBe(block);
    if (block === undefined) return;
    if (this.#cached.delete(block)) this.evicted.push(block);
    this.#low.delete(block);
    if (low) this.#low.add(block);
    this.#held.set(block, 1);
  }

  #revive(pool: BlockPool, which: number, low: boolean): void {
    const cached = [...this.#cached];
    const block = cached[which % Math.max(1, cached.length)];
    if (block === undefined) return;
    pool.retain(block, low);
    this.#held.set(block, (this.#held.get(block) ?? 0) + 1);
    for (const list of Object.values(this.lists))
      if (list.includes(block)) list.splice(list.indexOf(block), 1);
    if (!low) this.#low.delete(block);
  }

  #release(pool: BlockPool, block: number): void {
    pool.release(block);
    const held = (this.#held.get(block) as number) - 1;
    this.#held.set(block, held);
    if (held > 0) return;
    this.#held.delete(block);
    if (!this.#cached.has(block)) this.lists.empty.unshift(block);
    else this.lists[this.#low.has(block) ? 'cached-low' : 'cached'].push(block);
    this.#drop();
  }

  #setLimit(pool: BlockPool, limit: number): void {
    pool.setLimit(limit);
    this.limit = Math.min(limit, 7);
    this.#drop();
  }

  #drop(): void {
    const { empty, uncommitted, 'cached-low': lowWritten, cached } = this.lists;
    while (7 - uncommitted.length > this.limit) {
      const block = [empty, lowWritten, cached].find((blocks) => blocks.length > 0)?.shift();
      if (block === undefined) return;
      if (this.#cached.delete(block)) this.evicted.push(block);
      this.#low.delete(block);
      uncommitted.unshift(block);
    }
  }
}
