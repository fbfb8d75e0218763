// The KV blocks of a model on a GPU: addresses for all are reserved, and the first slots of them have memory, in whole pages. A
// block that holds something has a slot; where memory is given back, blocks of higher slots move down.

import type { Batch } from '../backend.ts';
import { BlockSlots } from '../block-slots.ts';
import type { Addon, ModelHandle } from '../cpu/binding.ts';

export class KvMemory {
  readonly #addon: Pick<Addon, 'fitBlocks' | 'moveBlocks'>;
  readonly #handle: ModelHandle;
  readonly #blockCount: number;
  readonly #slots: BlockSlots;
  #capacity: number;

  /** `capacity`: how many have memory already. */
  constructor(
    addon: Pick<Addon, 'fitBlocks' | 'moveBlocks'>,
    handle: ModelHandle,
    blockCount: number,
    capacity: number,
  ) {
    this.#addon = addon;
    this.#handle = handle;
    this.#blockCount = blockCount;
    this.#capacity = capacity;
    this.#slots = new BlockSlots(blockCount);
  }

  /** What was asked for, though the last page may have memory for some more. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Blocks that would hold something after a batch. */
  needed(batch: Batch): number {
    return this.#slots.needed(batch);
  }

  /** The batch with slots in place of blocks; there is room for what it writes. */
  place(batch: Batch): Batch {
    this.#slots.assign(batch);
    return this.#slots.resolve(batch);
  }

  /** The slot of a block that holds something. */
  placeOf(block: number): number {
    return this.#slots.slotOf(block);
  }

  /** The same of one that may hold nothing yet; throws where there is no memory for it. */
  placeFor(block: number): number {
    return this.#slots.slotFor(block, this.#capacity);
  }

  release(blocks: Int32Array): void {
    this.#slots.release(blocks);
  }

  /** See BlockMemory. */
  fit(needed: number, most: number): number {
    const limit = Math.max(this.#slots.inUse, Math.min(most, this.#blockCount));
    const wanted = Math.max(Math.min(needed, limit), Math.min(this.#capacity, limit));
    if (wanted === this.#capacity) return wanted;
    const moves = this.#slots.compact(limit);
    if (moves.length > 0) {
      this.#addon.moveBlocks(this.#handle, Int32Array.from(moves.flatMap(({ from, to }) => [from, to])));
    }
    this.#capacity = Math.min(wanted, this.#addon.fitBlocks(this.#handle, wanted, limit));
    return this.#capacity;
  }
}
