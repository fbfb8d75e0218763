// Where KV blocks lie in the memory of a GPU. A block has a slot from its first write to its release; its number says
// nothing about the slot, so that memory needs room for the blocks that hold something and for no others.

import { type Batch, BLOCK_TOKENS } from './backend.ts';

const NONE = -1;

export interface SlotMove {
  readonly from: number;
  readonly to: number;
}

export class BlockSlots {
  readonly #slotOf: Int32Array;
  readonly #blockIn: Int32Array;
  #inUse = 0;
  /** No slot before it is free. */
  #firstFree = 0;

  constructor(blockCount: number) {
    this.#slotOf = new Int32Array(blockCount).fill(NONE);
    this.#blockIn = new Int32Array(blockCount).fill(NONE);
  }

  get inUse(): number {
    return this.#inUse;
  }

  /** Slots up to the last that is in use. */
  get span(): number {
    let span = this.#blockIn.length;
    while (span > 0 && this.#blockIn[span - 1] === NONE) span--;
    return span;
  }

  /** Slots in use once a batch that is well formed is assigned its own. */
  needed(batch: Batch): number {
    const added = new Set<number>();
    for (const block of writtenBlocks(batch)) if (this.#slotOf[block] === NONE) added.add(block);
    return this.#inUse + added.size;
  }

  /** Gives slots to all blocks that a batch writes, the first free ones. */
  assign(batch: Batch): void {
    for (const block of writtenBlocks(batch)) {
      if (this.#slotOf[block] !== NONE) continue;
      while (this.#blockIn[this.#firstFree] !== NONE) this.#firstFree++;
      this.#put(block, this.#firstFree);
      this.#inUse++;
    }
  }

  /** The slot of a block that holds something. */
  slotOf(block: number): number {
    const slot = this.#slotOf[block] as number;
    if (slot === NONE) throw new Error(`block ${block} holds nothing`);
    return slot;
  }

  /** The same of one that may hold nothing yet: the first free slot below the capacity. */
  slotFor(block: number, capacity: number): number {
    const slot = this.#slotOf[block] as number;
    if (slot !== NONE) return slot;
    while (this.#blockIn[this.#firstFree] !== NONE) this.#firstFree++;
    const free = this.#firstFree;
    if (free >= capacity) throw new Error(`there is no room for block ${block}`);
    this.#put(block, free);
    this.#inUse++;
    return free;
  }

  /** The batch with slots for blocks. Those without one are reserved for later tokens; no kernel reads them. */
  resolve(batch: Batch): Batch {
    const blocks = batch.blocks.map((block) => Math.max(0, this.#slotOf[block] as number));
    return { ...batch, blocks };
  }

  release(blocks: Int32Array): void {
    for (const block of blocks) {
      const slot = this.#slotOf[block] as number;
      if (slot === NONE) continue;
      this.#slotOf[block] = NONE;
      this.#blockIn[slot] = NONE;
      this.#inUse--;
      this.#firstFree = Math.min(this.#firstFree, slot);
    }
  }

  /** Moves blocks into free slots below a count, which is no smaller than what is in use. */
  compact(count: number): SlotMove[] {
    if (count < this.#inUse) throw new Error(`${this.#inUse} blocks do not fit ${count} slots`);
    const moves: SlotMove[] = [];
    for (let from = count; from < this.#blockIn.length; from++) {
      const block = this.#blockIn[from] as number;
      if (block === NONE) continue;
      while (this.#blockIn[this.#firstFree] !== NONE) this.#firstFree++;
      moves.push({ from, to: this.#firstFree });
      this.#blockIn[from] = NONE;
      this.#put(block, this.#firstFree);
    }
    return moves;
  }

  #put(block: number, slot: number): void {
    this.#slotOf[block] = slot;
    this.#blockIn[slot] = block;
  }
}

function* writtenBlocks({ starts, rowStarts, blocks, blockStarts }: Batch): Generator<number> {
  for (const [sequence, start] of starts.entries()) {
    const end = start + (rowStarts[sequence + 1] as number) - (rowStarts[sequence] as number);
    const table = blockStarts[sequence] as number;
    for (let entry = Math.floor(start / BLOCK_TOKENS); entry * BLOCK_TOKENS < end; entry++) {
      yield blocks[table + entry] as number;
    }
  }
}
