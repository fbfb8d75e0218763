// Recurrent state of sequences, for models with recurrent layers. A state has a fixed size, however long its sequence is,
// and lies in a slot. A running sequence goes on from one slot and writes its own.
//
// A state at the end of a full block may be kept as a checkpoint, like the block: a sequence that finds the block can go on
// from there. A checkpoint is never written again; who holds it and goes on takes a slot of its own. A state is as large as
// many blocks, so there are few checkpoints: where sequences are known to part, at the end of prompts, and after the last
// full block of each sequence.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { StateUse } from '../../compute/batch-states.ts';
import type { BlockHolder, RecurrentState } from './block-holder.ts';
import { BlockPool } from './block-pool.ts';

/** What a step computes of a sequence. */
interface PlannedState {
  readonly holder: BlockHolder;
  readonly count: number;
  /** Further ones, any of which may be rejected: there must be a slot to spare for each. */
  readonly draftTokens: number;
}

export class StateSlots {
  readonly pool: BlockPool;
  // Links hold a number + 1, so that zeroed memory links nothing.
  readonly #slotOf: Int32Array;
  readonly #blockOf: Int32Array;

  /** `onEvict` hears of every checkpoint whose slot is taken for something else. */
  constructor(
    slotCount: number,
    blockCount: number,
    onEvict: (slot: number, block: number) => void = () => {},
  ) {
    this.#slotOf = new Int32Array(blockCount);
    this.#blockOf = new Int32Array(slotCount);
    this.pool = new BlockPool(slotCount, (slot) => {
      const block = (this.#blockOf[slot] as number) - 1;
      if (block >= 0) onEvict(slot, block);
      this.#unlink(slot);
    });
  }

  /** Sequences that may run at once. Each needs a slot, and of two that go on from the same one, both need another. */
  get mostRunning(): number {
    return Math.max(1, Math.floor((2 * this.pool.blockCount) / 3));
  }

  /** The slot of the checkpoint at the end of a block, where there is one. */
  checkpointAfter(block: number): number | undefined {
    const link = this.#slotOf[block] as number;
    return link === 0 ? undefined : link - 1;
  }

  /** How many of the blocks, from the first on, can be gone on from. */
  reach(blocks: readonly number[]): number {
    for (let count = blocks.length; count > 0; count--) {
      if (this.checkpointAfter(blocks[count - 1] as number) !== undefined) return count;
    }
    return 0;
  }

  /** Others may want to go on after this many tokens of the sequence. */
  wantCheckpoint(holder: BlockHolder, position: number): void {
    stateOf(holder).wantedCheckpoints.add(position);
  }

  /** Starts a sequence on the checkpoint at the end of its last block. */
  adopt(holder: BlockHolder): void {
    const block = holder.blocks.at(-1);
    if (block === undefined) return;
    const slot = this.checkpointAfter(block) as number;
    this.pool.retain(slot, holder.low);
    stateOf(holder).slot = slot;
  }

  /** Takes a slot for the state after the block `end`, which comes from elsewhere, and keeps it as a checkpoint. */
  reserve(holder: BlockHolder, end: number): boolean {
    const slot = this.pool.take(holder.low);
    if (slot === undefined) return false;
    const position = end * BLOCK_TOKENS;
    this.wantCheckpoint(holder, position);
    stateOf(holder).written.push({ position, slot });
    return true;
  }

  /** Slots that nobody needs in a step of these, and that hold no checkpoint. */
  spare(holders: readonly BlockHolder[]): number {
    const needed = holders.filter((holder) => !this.#isAlone(holder) || this.#isCheckpoint(holder)).length;
    return Math.max(0, this.pool.freeCount - this.pool.cachedFreeCount - needed);
  }

  /** Finds slots for the states that a step writes. */
  plan(items: readonly PlannedState[]): StateUse[] {
    const own = new Map<BlockHolder, number>();
    // Those first that have no slot to fall back on.
    for (const { holder } of items) if (!this.#isAlone(holder)) own.set(holder, this.#take(holder));
    for (const { holder } of items) if (this.#isAlone(holder)) own.set(holder, this.#ownSlot(holder));
    for (const { holder, count, draftTokens } of items) this.#planDraft(holder, count, draftTokens);
    return items.map(({ holder, count, draftTokens }) => {
      const end = holder.computed + count + draftTokens;
      if (draftTokens === 0) this.#planCheckpoints(holder, end);
      const { slot: from, written } = stateOf(holder);
      written.push({ position: end, slot: own.get(holder) as number });
      return {
        from,
        kept: written.map(({ position, slot }) => ({ after: position - holder.computed, slot })),
      };
    });
  }

  /** After each token that may be the last one that is accepted. */
  #planDraft(holder: BlockHolder, count: number, draftTokens: number): void {
    const { written } = stateOf(holder);
    for (let index = 0; index < draftTokens; index++) {
      written.push({ position: holder.computed + count + index, slot: this.#take(holder) });
    }
  }

  /** As far as there are slots to spare. */
  #planCheckpoints(holder: BlockHolder, end: number): void {
    const { wantedCheckpoints, written } = stateOf(holder);
    const within = [...wantedCheckpoints].filter((position) => position > holder.computed && position < end);
    for (const position of within.sort((a, b) => a - b)) {
      const slot = this.pool.take(holder.low);
      if (slot !== undefined) written.push({ position, slot });
    }
  }

  /** The step is done, and the blocks that became full are published. */
  commit(holder: BlockHolder): void {
    const state = stateOf(holder);
    const before = state.slot;
    for (const { position, slot } of state.written) {
      if (position % BLOCK_TOKENS === 0 && position <= holder.computed) this.#keep(holder, position, slot);
      if (position === holder.computed) state.slot = slot;
      else if (slot !== before) this.pool.release(slot);
    }
    if (before !== undefined && before !== state.slot) this.pool.release(before);
    state.written.length = 0;
  }

  release(holder: BlockHolder): void {
    const state = stateOf(holder);
    for (const { slot } of state.written) if (slot !== state.slot) this.pool.release(slot);
    state.written.length = 0;
    if (state.slot !== undefined) this.pool.release(state.slot);
    state.slot = undefined;
    state.lastCheckpoint = undefined;
  }

  /** The block no longer is what it was. */
  forget(block: number): void {
    const slot = this.checkpointAfter(block);
    if (slot === undefined) return;
    this.#unlink(slot);
    this.pool.uncache(slot);
  }

  /** Nobody else goes on from the same slot now. */
  #isAlone({ recurrent }: BlockHolder): boolean {
    return recurrent?.slot !== undefined && this.pool.references(recurrent.slot) === 1;
  }

  #isCheckpoint({ recurrent }: BlockHolder): boolean {
    return recurrent?.slot !== undefined && this.pool.isCached(recurrent.slot);
  }

  #take(holder: BlockHolder): number {
    const slot = this.pool.take(holder.low);
    if (slot === undefined) throw new Error(`sequence ${holder.id} finds no slot for its state`);
    return slot;
  }

  /** The slot of a sequence that is alone: the same, unless it holds a checkpoint and there is another. */
  #ownSlot(holder: BlockHolder): number {
    const own = holder.recurrent?.slot as number;
    if (!this.#isCheckpoint(holder)) return own;
    const slot = this.pool.take(holder.low);
    if (slot !== undefined) return slot;
    // A sequence that runs is worth more than one that may come.
    this.forget((this.#blockOf[own] as number) - 1);
    return own;
  }

  /** Where others may want it: at a wanted position, or at the sequence's end, and then in place of the one before. */
  #keep(holder: BlockHolder, position: number, slot: number): void {
    const state = stateOf(holder);
    const isWanted = state.wantedCheckpoints.has(position);
    const isEnd = holder.computed >= holder.length - 1 && position + BLOCK_TOKENS > holder.computed;
    if (!isEnd && !isWanted) return;
    const block = holder.blocks[position / BLOCK_TOKENS - 1] as number;
    if (this.checkpointAfter(block) !== undefined) return;
    this.#slotOf[block] = slot + 1;
    this.#blockOf[slot] = block + 1;
    this.pool.markCached(slot);
    if (!isEnd || isWanted) return;
    const last = state.lastCheckpoint;
    if (last !== undefined && this.checkpointAfter(last.block) === last.slot) this.forget(last.block);
    state.lastCheckpoint = { block, slot };
  }

  #unlink(slot: number): void {
    const block = (this.#blockOf[slot] as number) - 1;
    if (block < 0) return;
    this.#blockOf[slot] = 0;
    this.#slotOf[block] = 0;
  }
}

function stateOf(holder: BlockHolder): RecurrentState {
  holder.recurrent ??= {
    slot: undefined,
    written: [],
    wantedCheckpoints: new Set(),
    lastCheckpoint: undefined,
  };
  return holder.recurrent;
}
