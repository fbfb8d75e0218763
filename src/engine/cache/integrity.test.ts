import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { Sequence } from '../scheduler/sequence.ts';
import { BlockTables } from './block-tables.ts';
import { checkCacheIntegrity } from './integrity.ts';

/** A healthy cache: one holder with two full blocks and a started one. */
function healthy(): { tables: BlockTables; holder: Sequence } {
  const tables = new BlockTables(8);
  const tokens = Int32Array.from({ length: 2 * BLOCK_TOKENS + 4 }, (_, i) => i);
  const holder = new Sequence({ id: 'holder', tokens, maxTokens: 999, priority: 1, enqueuedMs: 0 });
  tables.grow(holder, holder.length - 1);
  tables.advance(holder, holder.length - 1);
  return { tables, holder };
}

const damages: readonly (readonly [string, (tables: BlockTables, holder: Sequence) => void])[] = [
  ['2 references, 1 holders', (tables, holder) => tables.pool.retain(holder.blocks[0] as number, false)],
  ['0 references, 1 holders', (tables, holder) => tables.pool.release(holder.blocks[2] as number)],
  ['1 references, 0 holders', (tables) => tables.pool.take(false)],
  [
    'is cached in the pool and the table',
    (tables, holder) => tables.prefixes.forget(holder.blocks[1] as number),
  ],
  [
    'is cached in the pool and the table',
    (tables, holder) => tables.pool.markCached(holder.blocks[2] as number),
  ],
  ['the parent 7 of cached block 2 is cached', (tables, holder) => publishWithParent(tables, holder, 7)],
  ['holder has a token to compute', (_, holder) => setComputed(holder, holder.length)],
  [
    'holder has blocks for its 67 computed',
    (tables, holder) => tables.pool.release(holder.blocks.pop() as number),
  ],
  ['holder has no blocks beyond', (tables, holder) => holder.blocks.push(tables.pool.take(false) as number)],
  ['holder holds each block once', (tables, holder) => repeatBlock(tables, holder)],
  ['is not cached', (_, holder) => setComputed(holder, 40)],
  ['is the one for its tokens and prefix', (_, holder) => holder.storage.fill(9, 0, 3)],
  ['the parent 0 of block 1 is kept as long', (tables, holder) => rewriteAsLow(tables, holder)],
];

function setComputed(holder: Sequence, computed: number): void {
  holder.computed = computed;
}

function publishWithParent(tables: BlockTables, holder: Sequence, parent: number): void {
  const block = holder.blocks[2] as number;
  tables.prefixes.insert(block, parent, holder.storage, 0);
  tables.pool.markCached(block);
}

function repeatBlock(tables: BlockTables, holder: Sequence): void {
  tables.pool.release(holder.blocks[2] as number);
  tables.pool.retain(holder.blocks[0] as number, false);
  holder.blocks[2] = holder.blocks[0] as number;
}

/** The first block becomes one that LOW wrote, its child stays a chat's. */
function rewriteAsLow(tables: BlockTables, holder: Sequence): void {
  const block = holder.blocks[0] as number;
  const others = Array.from({ length: 5 }, () => tables.pool.take(false) as number);
  tables.pool.release(block);
  expect(tables.pool.take(true)).toBe(block);
  tables.prefixes.insert(block, tables.prefixes.root(''), holder.storage, 0);
  tables.pool.markCached(block);
  for (const other of others) tables.pool.release(other);
}

describe('checkCacheIntegrity', () => {
  it('is content with a healthy cache, in use and released', () => {
    const { tables, holder } = healthy();
    checkCacheIntegrity(tables, [holder]);
    tables.release(holder);
    checkCacheIntegrity(tables, []);
  });

  it.each(damages)('finds: %s', (message, damage) => {
    const { tables, holder } = healthy();
    damage(tables, holder);
    expect(() => checkCacheIntegrity(tables, [holder])).toThrow(message);
  });

  it('finds a parent that would be evicted before its child', () => {
    const { tables, holder } = healthy();
    for (const block of holder.blocks) tables.pool.release(block);
    holder.blocks.length = 0;
    expect(() => checkCacheIntegrity(tables, [])).toThrow('block 1 is evicted before its parent 0');
  });
});
