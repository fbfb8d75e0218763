import { describe, expect, it } from 'vitest';
import { Sequence } from '../scheduler/sequence.ts';
import { BlockTables } from './block-tables.ts';

let ids = 0;

function sequence(tokens: readonly number[]): Sequence {
  return new Sequence({
    id: `s${ids++}`,
    tokens: Int32Array.from(tokens),
    maxTokens: 1000,
    priority: 1,
    enqueuedMs: 0,
  });
}

const tokens = (length: number, seed = 1): number[] => Array.from({ length }, (_, i) => seed * 1000 + i);

/** Starts on what is known, and says how many tokens need not be computed. */
function start(tables: BlockTables, holder: Sequence): number {
  tables.adopt(holder, tables.resumable(tables.match(holder)));
  return holder.computed;
}

/** Computes so many tokens in one step; where it goes on from, and where it writes. */
function compute(tables: BlockTables, holder: Sequence, count: number) {
  tables.grow(holder, count);
  const [state] = tables.recurrentStates?.plan([{ holder, count, draftTokens: 0 }]) ?? [];
  tables.advance(holder, count);
  return state;
}

describe('StateSlots', () => {
  it('lets a sequence write where it reads, from its second step on', () => {
    const tables = new BlockTables(8, 4);
    const holder = sequence(tokens(20));
    const first = compute(tables, holder, 10);
    expect(first?.from).toBeUndefined();
    const slot = first?.kept[0]?.slot;
    expect(compute(tables, holder, 5)).toEqual({ from: slot, kept: [{ after: 5, slot }] });
  });

  it('keeps a checkpoint where it is wanted, and lets others go on from it', () => {
    const tables = new BlockTables(20, 6);
    const first = sequence(tokens(100));
    tables.recurrentStates?.wantCheckpoint(first, 64);
    const kept = compute(tables, first, 100)?.kept;
    expect(kept?.map(({ after }) => after)).toEqual([64, 100]);
    const second = sequence([...tokens(70), 7, 7, 7]);
    expect(start(tables, second)).toBe(64);
    const state = compute(tables, second, 9);
    expect(state?.from).toBe(kept?.[0]?.slot);
    expect(state?.kept[0]?.slot).not.toBe(state?.from);
    // The checkpoint stays for a third.
    expect(start(tables, sequence(tokens(90)))).toBe(64);
  });

  it('offers no block without a checkpoint after it', () => {
    const tables = new BlockTables(20, 6);
    compute(tables, sequence(tokens(100)), 100);
    const second = sequence(tokens(100));
    expect(tables.match(second)).toHaveLength(3);
    expect(start(tables, second)).toBe(0);
  });

  it('keeps a checkpoint after the last full block of a sequence, in place of the one before', () => {
    const tables = new BlockTables(20, 6);
    const holder = sequence(tokens(30));
    compute(tables, holder, 30);
    for (let step = 0; step < 70; step++) {
      holder.append(5000 + step);
      compute(tables, holder, 1);
    }
    const answer = [...holder.tokens];
    tables.release(holder);
    expect(start(tables, sequence([...answer, 1, 2, 3]))).toBe(96);
    expect(start(tables, sequence([...answer.slice(0, 70), 1]))).toBe(0);
    expect(tables.recurrentStates?.pool.usedCount).toBe(1);
  });

  it('drops the checkpoint of a block that is taken for something else', () => {
    const crowded = new BlockTables(2, 4);
    const before = sequence(tokens(40));
    crowded.recurrentStates?.wantCheckpoint(before, 32);
    compute(crowded, before, 40);
    crowded.release(before);
    expect(crowded.recurrentStates?.pool.cachedFreeCount).toBe(1);
    compute(crowded, sequence(tokens(40, 2)), 40);
    expect(crowded.recurrentStates?.pool.cachedFreeCount).toBe(0);
  });

  it('gives up a checkpoint before it lets a running sequence down', () => {
    const tables = new BlockTables(20, 2);
    const holder = sequence(tokens(32));
    compute(tables, holder, 32);
    const other = sequence(tokens(10, 2));
    compute(tables, other, 10);
    // Both slots are taken: one by the other sequence, one by the checkpoint that this one goes on from.
    holder.append(1);
    const state = compute(tables, holder, 1);
    expect(state?.kept[0]?.slot).toBe(state?.from);
    tables.release(holder);
    expect(start(tables, sequence(tokens(33)))).toBe(0);
  });

  it('gives everything back when a sequence ends in the middle of a step', () => {
    const tables = new BlockTables(20, 6);
    const holder = sequence(tokens(100));
    for (const position of [32, 64]) tables.recurrentStates?.wantCheckpoint(holder, position);
    tables.grow(holder, 100);
    tables.recurrentStates?.plan([{ holder, count: 100, draftTokens: 0 }]);
    tables.release(holder);
    expect(tables.recurrentStates?.pool.usedCount).toBe(0);
  });
});
