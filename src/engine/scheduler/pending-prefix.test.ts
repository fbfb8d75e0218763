import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { BlockTables } from '../cache/block-tables.ts';
import { pendingPrefix } from './pending-prefix.ts';
import { Sequence } from './sequence.ts';

/** A sequence of whole blocks, each filled with one number, and one more token. */
function sequence(blocks: readonly number[], salt = ''): Sequence {
  const tokens = Int32Array.of(...blocks.flatMap((fill) => Array<number>(BLOCK_TOKENS).fill(fill)), 0);
  return new Sequence({ id: blocks.join(), tokens, maxTokens: 9999, priority: 1, enqueuedMs: 0, salt });
}

/** Starts a sequence and computes its first blocks. */
function started(tables: BlockTables, each: Sequence, blocks: number): Sequence {
  tables.grow(each, blocks * BLOCK_TOKENS);
  tables.advance(each, blocks * BLOCK_TOKENS);
  return each;
}

describe('pendingPrefix', () => {
  it('names the running sequence that will compute the next block, and how far the two go together', () => {
    const tables = new BlockTables(20);
    const owner = started(tables, sequence([1, 2, 3, 4, 5]), 1);
    const waiting = sequence([1, 2, 3, 9]);
    const matched = tables.match(waiting);
    expect(matched).toHaveLength(1);
    expect(pendingPrefix(waiting, matched, [owner])).toEqual({ owner, blocks: 3 });
  });

  it('goes no further than the waiting sequence can reuse or the owner has tokens', () => {
    const tables = new BlockTables(20);
    const owner = started(tables, sequence([1, 2, 3]), 0);
    expect(pendingPrefix(sequence([1, 2]), [], [owner])?.blocks).toBe(2);
    expect(pendingPrefix(sequence([1, 2, 3, 0]), [], [owner])?.blocks).toBe(3);
  });

  it('finds nothing where the next block differs, or nothing is left to reuse', () => {
    const tables = new BlockTables(20);
    const owner = started(tables, sequence([1, 2, 3]), 1);
    const matched = tables.match(sequence([1, 7]));
    expect(pendingPrefix(sequence([1, 7]), matched, [owner])).toBeUndefined();
    expect(pendingPrefix(sequence([1]), matched, [owner])).toBeUndefined();
    expect(pendingPrefix(sequence([1, 2]), matched, [])).toBeUndefined();
  });

  it('finds nothing after another prefix, though the next tokens are the same', () => {
    const tables = new BlockTables(20);
    const owner = started(tables, sequence([1, 2, 3]), 1);
    started(tables, sequence([8, 9]), 1);
    const waiting = sequence([8, 2, 3]);
    const matched = tables.match(waiting);
    expect(matched).toHaveLength(1);
    expect(pendingPrefix(waiting, matched, [owner])).toBeUndefined();
  });

  it('finds nothing of another salt', () => {
    const tables = new BlockTables(20);
    const owner = started(tables, sequence([1, 2, 3], 'a'), 0);
    expect(pendingPrefix(sequence([1, 2, 3], 'b'), [], [owner])).toBeUndefined();
  });
});
