// Where layers without KV keep what they remember of sequences. A memory has a fixed size, however long its sequence is,
// and lies in a slot. A running sequence goes on from one slot and writes its own.
//
// RecurrentStates at the end of a full block are kept for others, like the block: a sequence that finds the block can go on from
// there. What is kept is never written again; who holds it and goes on takes a slot of its own. A memory is as large as
// many blocks, so few are kept: where sequences are known to part, at the end of prompts, and behind the last full block
// of each sequence.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { StateUse } from '../../compute/batch-states.ts';
import type { BlockHolder } from './block-holder.ts';
import { BlockPool } from './block-pool.ts';

/** A memory that a step writes: after so many tokens of the sequence. */
export interface WrittenState {
  readonly position: number;
  readonly slot: number;
}

/** What a step computes of a sequence. */
interface PlannedState {
  readonly holder: BlockHolder;
  readonly count: number;
  /** Further ones, any of which may turn out to be wrong: there must be a slot to spare for each. */
  readonly draftTokens: number;
}

export class StateSlots {
  readonly pool: BlockPool;
  // Links hold a number + 1, so that zeroed memory links nothing.
  readonly #slotOf: Int32Array;
  readonly #blockOf: Int32Array;

  constructor(slotCount: number, blockCount: number) {
    this.#slotOf = new Int32Array(blockCount);
    this.#blockOf = new Int32Array(slotCount);
    this.pool = new BlockPool(slotCount, (slot) => this.#unlink(slot));
  }

  /** Sequences that may run at once. Each needs a slot, and of two that go on from the same one, both need another. */
  get mostRunning(): number {
    return Math.max(1, Math.floor((2 * this.pool.blockCount) / 3));
  }

  /** The memory at the end of a block, where one is kept. */
  after(block: number): number | undefined {
    const link = this.#slotOf[block] as number;
    return link === 0 ? undefined : link - 1;
  }

  /** How many of the blocks, from the first on, can be gone on from. */
  reach(blocks: readonly number[]): number {
    for (let count = blocks.length; count > 0; count--) {
      if (this.after(blocks[count - 1] as number) !== undefined) return count;
    }
    return 0;
  }

  /** Starts a sequence on the memory at the end of its last block. */
  adopt(holder: BlockHolder): void {
    const block = holder.blocks.at(-1);
    if (block === undefined) return;
    const slot = this.after(block) as number;
    this.pool.retain(slot, holder.low);
    holder.memory = slot;
  }

  /** Slots that nobody needs in a step of these, and that keep nothing for others. */
  spare(holders: readonly BlockHolder[]): number {
    const needed = holders.filter((holder) => !this.#isAlone(holder) || this.#isKept(holder)).length;
    return Math.max(0, this.pool.freeCount - this.pool.cachedFreeCount - needed);
  }

  /** Finds slots for what a step leaves behind. */
  plan(items: readonly PlannedState[]): StateUse[] {
    const own = new Map<BlockHolder, number>();
    // Those first that have no slot to fall back on.
    for (const { holder } of items) if (!this.#isAlone(holder)) own.set(holder, this.#take(holder));
    for (const { holder } of items) if (this.#isAlone(holder)) own.set(holder, this.#ownSlot(holder));
    for (const { holder, count, draftTokens } of items) this.#planDraft(holder, count, draftTokens);
    return items.map(({ holder, count, draftTokens }) => {
      const end = holder.computed + count + draftTokens;
      if (draftTokens === 0) this.#planBorders(holder, end);
      holder.written.push({ position: end, slot: own.get(holder) as number });
      return {
        from: holder.memory,
        kept: holder.written.map(({ position, slot }) => ({ after: position - holder.computed, slot })),
      };
    });
  }

  /** After each token that may be the last one that is right. */
  #planDraft(holder: BlockHolder, count: number, draftTokens: number): void {
    for (let index = 0; index < draftTokens; index++) {
      holder.written.push({ position: holder.computed + count + index, slot: this.#take(holder) });
    }
  }

  /** As far as there are slots to spare. */
  #planBorders(holder: BlockHolder, end: number): void {
    const borders = [...holder.keptAt].filter((position) => position > holder.computed && position < end);
    for (const position of borders.sort((a, b) => a - b)) {
      const slot = this.pool.take(holder.low);
      if (slot !== undefined) holder.written.push({ position, slot });
    }
  }

  /** The step is done, and the blocks that became full are published. */
  commit(holder: BlockHolder): void {
    const before = holder.memory;
    for (const { position, slot } of holder.written) {
      if (position % BLOCK_TOKENS === 0 && position <= holder.computed) this.#keep(holder, position, slot);
      if (position === holder.computed) holder.memory = slot;
      else if (slot !== before) this.pool.release(slot);
    }
    if (before !== undefined && before !== holder.memory) this.pool.release(before);
    holder.written.length = 0;
  }

  release(holder: BlockHolder): void {
    for (const { slot } of holder.written) if (slot !== holder.memory) this.pool.release(slot);
    holder.written.length = 0;
    if (holder.memory !== undefined) this.pool.release(holder.memory);
    holder.memory = undefined;
    holder.lastKept = undefined;
  }

  /** The block no longer is what it was. */
  forget(block: number): void {
    const slot = this.after(block);
    if (slot === undefined) return;
    this.#unlink(slot);
    this.pool.uncache(slot);
  }

  /** Nobody else goes on from the same slot now. */
  #isAlone({ memory }: BlockHolder): boolean {
    return memory !== undefined && this.pool.references(memory) === 1;
  }

  /** What it goes on from is kept for others. */
  #isKept({ memory }: BlockHolder): boolean {
    return memory !== undefined && this.pool.isCached(memory);
  }

  #take(holder: BlockHolder): number {
    const slot = this.pool.take(holder.low);
    if (slot === undefined) throw new Error(`sequence ${holder.id} finds no slot for its memory`);
    return slot;
  }

  /** The slot of a sequence that is alone: the same, unless it is kept for others and there is another. */
  #ownSlot(holder: BlockHolder): number {
    const memory = holder.memory as number;
    if (!this.#isKept(holder)) return memory;
    const slot = this.pool.take(holder.low);
    if (slot !== undefined) return slot;
    // A sequence that runs is worth more than one that may come.
    this.forget((this.#blockOf[memory] as number) - 1);
    return memory;
  }

  /** Where others may want it: at a wanted border, or at the sequence's end, and then in place of the one before. */
  #keep(holder: BlockHolder, position: number, slot: number): void {
    const isEnd = holder.computed >= holder.length - 1 && position + BLOCK_TOKENS > holder.computed;
    if (!isEnd && !holder.keptAt.has(position)) return;
    const block = holder.blocks[position / BLOCK_TOKENS - 1] as number;
    if (this.after(block) !== undefined) return;
    this.#slotOf[block] = slot + 1;
    this.#blockOf[slot] = block + 1;
    this.pool.markCached(slot);
    if (!isEnd || holder.keptAt.has(position)) return;
    const { lastKept } = holder;
    if (lastKept !== undefined && this.after(lastKept.block) === lastKept.slot) this.forget(lastKept.block);
    holder.lastKept = { block, slot };
  }

  #unlink(slot: number): void {
    const block = (this.#blockOf[slot] as number) - 1;
    if (block < 0) return;
    this.#blockOf[slot] = 0;
    this.#slotOf[block] = 0;
  }
}
