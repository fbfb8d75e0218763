import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { type Priority, Sequence } from '../scheduler/sequence.ts';
import { BlockTables } from './block-tables.ts';
import { checkCacheIntegrity } from './integrity.ts';

let ids = 0;

interface Options {
  readonly seed?: number;
  readonly priority?: Priority;
  readonly salt?: string;
}

/** A prompt of so many tokens; those of one seed begin alike. */
function sequence(length: number, { seed = 1, priority = 1, salt = '' }: Options = {}): Sequence {
  const tokens = Int32Array.from({ length }, (_, i) => i * seed);
  return new Sequence({ id: `s${ids++}`, tokens, maxTokens: 10_000, priority, enqueuedMs: 0, salt });
}

/** Starts a sequence on what the cache has and computes all but its last token. */
function compute(tables: BlockTables, each: Sequence): Sequence {
  if (each.blocks.length === 0) tables.adopt(each, tables.match(each));
  const count = each.remaining - 1;
  expect(tables.grow(each, count)).toBe(count);
  tables.advance(each, count);
  return each;
}

describe('BlockTables', () => {
  it('shares the whole blocks of a common prefix, leaving a token to compute', () => {
    const tables = new BlockTables(20);
    const first = compute(tables, sequence(3 * BLOCK_TOKENS + 1));
    expect(tables.match(sequence(3 * BLOCK_TOKENS + 1))).toEqual(first.blocks.slice(0, 3));
    expect(tables.match(sequence(3 * BLOCK_TOKENS))).toEqual(first.blocks.slice(0, 2));
    expect(tables.match(sequence(BLOCK_TOKENS))).toEqual([]);
    expect(tables.match(sequence(100, { seed: 2 }))).toEqual([]);
    expect(tables.match(sequence(100, { salt: 'other' }))).toEqual([]);
  });

  it('takes over the earlier block where two computed the same prefix', () => {
    const tables = new BlockTables(20);
    const [a, b] = [sequence(2 * BLOCK_TOKENS + 5), sequence(2 * BLOCK_TOKENS + 5)];
    for (const each of [a, b]) tables.grow(each, each.length - 1);
    expect(tables.pool.usedCount).toBe(6);
    for (const each of [a, b]) tables.advance(each, each.length - 1);
    expect(b.blocks.slice(0, 2)).toEqual(a.blocks.slice(0, 2));
    expect(b.blocks[2]).not.toBe(a.blocks[2]);
    expect(tables.pool.usedCount).toBe(4);
    checkCacheIntegrity(tables, [a, b]);
  });

  it('publishes blocks filled by decoding, so that the next turn finds them', () => {
    const tables = new BlockTables(20);
    const chat = compute(tables, sequence(BLOCK_TOKENS));
    while (chat.length <= 3 * BLOCK_TOKENS) {
      tables.grow(chat, 1);
      tables.advance(chat, 1);
      chat.append(chat.length * 7);
    }
    const tokens = Int32Array.of(...chat.tokens, 1, 2, 3);
    const next = new Sequence({ id: 'next', tokens, maxTokens: 1000, priority: 1, enqueuedMs: 0 });
    tables.release(chat);
    expect(tables.match(next)).toHaveLength(3);
  });

  it('shares full blocks alone: whoever starts on a prefix writes to a block of its own', () => {
    const tables = new BlockTables(20);
    const first = compute(tables, sequence(BLOCK_TOKENS + 6));
    const second = compute(tables, sequence(BLOCK_TOKENS + 6));
    expect(second.blocks[0]).toBe(first.blocks[0]);
    expect(second.blocks[1]).not.toBe(first.blocks[1]);
    expect(first.blocks.map((block) => tables.pool.references(block))).toEqual([2, 1]);
    first.computed = 0;
    expect(() => tables.assertWritable(first, 1)).toThrow('must not write');
  });

  it('grants as many tokens as blocks are left', () => {
    const tables = new BlockTables(3);
    compute(tables, sequence(BLOCK_TOKENS + 6));
    const other = sequence(500, { seed: 3 });
    expect(tables.grow(other, 500)).toBe(BLOCK_TOKENS);
    tables.advance(other, BLOCK_TOKENS);
    expect(tables.lackFor(other, 1)).toBe(1);
    expect(tables.grow(other, 1)).toBe(0);
  });

  it('tells whether a block is left to write to beside those a sequence would start on', () => {
    const tables = new BlockTables(3);
    const first = compute(tables, sequence(3 * BLOCK_TOKENS));
    const next = sequence(3 * BLOCK_TOKENS);
    tables.release(first);
    expect(tables.hasBlocksAfter(tables.match(next), 1)).toBe(true);
    tables.pool.setLimit(2);
    expect(tables.match(next)).toHaveLength(2);
    expect(tables.hasBlocksAfter(tables.match(next), 1)).toBe(false);
  });

  it('evicts the longest-unused prefix first, from its end, and never what is in use', () => {
    const tables = new BlockTables(8);
    const [old, used, recent] = [1, 2, 3].map((seed) =>
      compute(tables, sequence(2 * BLOCK_TOKENS + 1, { seed })),
    ) as [Sequence, Sequence, Sequence];
    const [oldBlocks, recentBlocks] = [[...old.blocks], [...recent.blocks]];
    tables.release(old);
    tables.release(recent);
    const taken = Array.from({ length: 6 }, () => tables.pool.take(false));
    expect(taken.slice(2)).toEqual([...oldBlocks.reverse(), ...recentBlocks.reverse()]);
    expect(tables.pool.take(false)).toBeUndefined();
    expect(tables.match(sequence(100, { seed: 2 }))).toEqual(used.blocks.slice(0, 2));
    expect(tables.match(sequence(100, { seed: 1 }))).toEqual([]);
  });

  it('evicts what LOW sequences wrote before older chats, until a chat uses it', () => {
    const length = 2 * BLOCK_TOKENS + 1;
    const tables = new BlockTables(8);
    const chat = compute(tables, sequence(length, { seed: 1 }));
    const [batch, reused] = [2, 3].map((seed) =>
      compute(tables, sequence(length, { seed, priority: 2 })),
    ) as [Sequence, Sequence];
    const batchBlocks = [...batch.blocks];
    for (const each of [chat, batch, reused]) tables.release(each);
    const reader = sequence(length, { seed: 3, priority: 0 });
    tables.adopt(reader, tables.match(reader));
    tables.release(reader);
    const taken = Array.from({ length: 4 }, () => tables.pool.take(false));
    expect(taken.slice(2)).toEqual(batchBlocks.reverse());
    expect(tables.match(sequence(length, { seed: 1 }))).toHaveLength(2);
    expect(tables.match(sequence(length, { seed: 3 }))).toHaveLength(2);
  });

  it('gives everything back', () => {
    const tables = new BlockTables(10);
    const each = compute(tables, sequence(100));
    tables.release(each);
    expect(each.blocks).toEqual([]);
    expect(each.computed).toBe(0);
    expect(tables.pool.freeCount).toBe(10);
    expect(tables.pool.cachedFreeCount).toBe(3);
  });
});
