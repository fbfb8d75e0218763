import { describe, expect, it } from 'vitest';
import type { Batch } from './backend.ts';
import { type BatchSequence, BlockUses, buildBatch, checkBatch } from './batch.ts';

const limits = { blockCount: 8, vocabSize: 100, contextLength: 96 };

const sequence = (change: Partial<BatchSequence> = {}): BatchSequence => ({
  tokens: [1, 2, 3],
  start: 0,
  blocks: [0],
  wantLogits: 'last',
  ...change,
});

const check =
  (sequences: readonly BatchSequence[], change: Partial<Batch> = {}) =>
  () =>
    checkBatch({ ...buildBatch(sequences), ...change }, limits);

describe('buildBatch', () => {
  it('lays sequences out flat, one after the other', () => {
    const batch = buildBatch([
      sequence(),
      sequence({ tokens: [9], start: 40, blocks: [3, 1], wantLogits: 'none' }),
      sequence({ tokens: [4, 5], blocks: [2], wantLogits: 'all', wantStates: 'last' }),
    ]);
    expect(batch.tokens).toEqual(Int32Array.of(1, 2, 3, 9, 4, 5));
    expect(batch.rowStarts).toEqual(Int32Array.of(0, 3, 4, 6));
    expect(batch.starts).toEqual(Int32Array.of(0, 40, 0));
    expect(batch.blocks).toEqual(Int32Array.of(0, 3, 1, 2));
    expect(batch.blockStarts).toEqual(Int32Array.of(0, 1, 3, 4));
    expect(batch.logitRows).toEqual(Int32Array.of(2, 4, 5));
    expect(batch.stateRows).toEqual(Int32Array.of(5));
  });
});

describe('checkBatch', () => {
  it('accepts sequences that share full blocks and write into their own', () => {
    const first = sequence({ start: 32, blocks: [0, 1] });
    expect(check([first, sequence({ start: 34, blocks: [0, 2] })])).not.toThrow();
  });

  it('accepts tables longer than needed yet', () => {
    expect(check([sequence({ blocks: [0, 1, 2] })])).not.toThrow();
  });

  it('refuses to write into a block that another table holds', () => {
    const reader = sequence({ start: 32, blocks: [0, 1] });
    const writer = sequence({ start: 5, blocks: [0], tokens: [1] });
    expect(check([reader, writer])).toThrow('sequence 1 would write into block 0, which is shared');
    expect(check([sequence(), sequence()])).toThrow('shared');
  });

  it('judges every batch alone, also with the marks of others at hand', () => {
    const uses = new BlockUses(limits.blockCount);
    const good = buildBatch([sequence({ blocks: [2] }), sequence({ blocks: [3] })]);
    const bad = buildBatch([sequence({ blocks: [2] }), sequence({ blocks: [2] })]);
    for (let step = 0; step < 3; step++) {
      expect(() => checkBatch(good, limits, uses)).not.toThrow();
      expect(() => checkBatch(bad, limits, uses)).toThrow('block 2, which is shared');
    }
  });

  it('refuses to write into a block that occurs twice in one table', () => {
    expect(check([sequence({ start: 32, blocks: [1, 1] })])).toThrow('shared');
  });

  it('refuses tables too short for the new rows', () => {
    expect(check([sequence({ start: 30 })])).toThrow('needs 2 blocks but its table has 1');
    expect(check([sequence({ start: 29 })])).not.toThrow();
  });

  it('refuses positions outside the context', () => {
    const blocks = [0, 1, 2, 3];
    expect(check([sequence({ start: 93, blocks })])).not.toThrow();
    expect(check([sequence({ start: 94, blocks })])).toThrow('context of 96');
    expect(check([sequence({ start: -1 })])).toThrow('context');
  });

  it('refuses tokens and blocks out of range', () => {
    expect(check([sequence({ tokens: [100] })])).toThrow('token 100');
    expect(check([sequence({ tokens: [-1] })])).toThrow('token -1');
    expect(check([sequence({ blocks: [8] })])).toThrow('block 8');
    expect(check([sequence({ blocks: [-1] })])).toThrow('block -1');
  });

  it('refuses sequences without tokens or blocks', () => {
    expect(check([sequence({ tokens: [], wantLogits: 'none' })])).toThrow('rowStarts gives nothing');
    expect(check([sequence({ blocks: [] })])).toThrow('blockStarts gives nothing');
  });

  it('refuses offsets that do not fit the arrays', () => {
    expect(check([sequence()], { rowStarts: Int32Array.of(0, 2) })).toThrow('rowStarts');
    expect(check([sequence()], { rowStarts: Int32Array.of(1, 3) })).toThrow('rowStarts');
    expect(check([sequence()], { blockStarts: Int32Array.of(0) })).toThrow('blockStarts');
  });

  it('refuses logit rows that do not ascend or do not exist', () => {
    expect(check([sequence()], { logitRows: Int32Array.of(1, 1) })).toThrow('ascend');
    expect(check([sequence()], { logitRows: Int32Array.of(2, 0) })).toThrow('ascend');
    expect(check([sequence()], { logitRows: Int32Array.of(3) })).toThrow('logit row 3');
    expect(check([sequence()], { stateRows: Int32Array.of(2, 0) })).toThrow('ascend');
  });
});
