import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from './backend.ts';
import { buildBatch } from './batch.ts';
import { BlockSlots } from './block-slots.ts';

const BLOCKS = 24;

/** A batch that writes all of these blocks. */
const writing = (blocks: readonly number[]) =>
  buildBatch([
    {
      tokens: Array<number>(blocks.length * BLOCK_TOKENS).fill(0),
      start: 0,
      blocks,
      wantLogits: 'none',
    },
  ]);

const slotsOf = (slots: BlockSlots, blocks: readonly number[]) => [...slots.resolve(writing(blocks)).blocks];

describe('slots of blocks', () => {
  it('are as many as blocks hold something, whatever their numbers', () => {
    const slots = new BlockSlots(BLOCKS);
    expect(slots.needed(writing([23, 4]))).toBe(2);
    slots.assign(writing([23, 4]));
    expect(slotsOf(slots, [4, 23])).toEqual([1, 0]);
    expect(slots.needed(writing([4, 9]))).toBe(3);
    slots.release(Int32Array.of(23, 23, 5));
    slots.assign(writing([9]));
    expect(slotsOf(slots, [9, 4])).toEqual([0, 1]);
    expect(slots.inUse).toBe(2);
  });

  it('stay with a block whose tokens come in several steps, and are not taken by those reserved for later', () => {
    const slots = new BlockSlots(BLOCKS);
    const part = { tokens: [1, 2], blocks: [7, 8], wantLogits: 'none' } as const;
    slots.assign(buildBatch([{ ...part, start: 0 }]));
    slots.assign(buildBatch([{ ...part, start: 2 }]));
    expect(slots.inUse).toBe(1);
    slots.assign(buildBatch([{ ...part, start: 31 }]));
    expect(slotsOf(slots, [7, 8])).toEqual([0, 1]);
  });

  it('never hold two blocks, and lose none when they are made fewer', () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant('write'), blocks: blockList() }),
      fc.record({ kind: fc.constant('release'), blocks: blockList() }),
      fc.record({ kind: fc.constant('compact'), spare: fc.nat(4) }),
    );
    const property = fc.property(fc.array(action, { maxLength: 40 }), (actions) => {
      const slots = new BlockSlots(BLOCKS);
      // What lies in each slot, as copies of whole slots would have it.
      const content = new Map<number, number>();
      const held = new Set<number>();
      for (const one of actions) {
        if ('spare' in one) {
          for (const { from, to } of slots.compact(slots.inUse + one.spare)) {
            expect(content.has(to)).toBe(false);
            content.set(to, content.get(from) as number);
            content.delete(from);
          }
          expect(slots.span).toBeLessThanOrEqual(slots.inUse + one.spare);
        } else if (one.kind === 'release') {
          for (const block of one.blocks) {
            if (held.delete(block)) content.delete(slotsOf(slots, [block])[0] as number);
          }
          slots.release(Int32Array.from(one.blocks));
        } else {
          slots.assign(writing(one.blocks));
          for (const block of one.blocks) held.add(block);
          for (const block of one.blocks) content.set(slotsOf(slots, [block])[0] as number, block);
        }
        expect(slots.inUse).toBe(held.size);
        for (const block of held) expect(content.get(slotsOf(slots, [block])[0] as number)).toBe(block);
      }
    });
    fc.assert(property);
  });

  it('are never made fewer than are in use', () => {
    const slots = new BlockSlots(BLOCKS);
    slots.assign(writing([1, 2, 3]));
    expect(() => slots.compact(2)).toThrow('3 blocks do not fit 2 slots');
  });
});

function blockList() {
  return fc.uniqueArray(fc.nat(BLOCKS - 1), { minLength: 1, maxLength: 8 });
}
