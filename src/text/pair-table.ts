// Which two neighbouring symbols merge, in what order, into what: a hash table in typed arrays, because a
// vocabulary has up to 300,000 merges and every merge step asks several times.
// An entry's index never changes, so it serves as its handle.

import type { MergeRules } from './merge-loop.ts';

const absent = -1;

export class PairTable implements MergeRules {
  /** Open addressing: entry index by hash, at most half full. */
  #slots: Int32Array;
  /** Left, right, rank, merged: four values per entry. */
  #entries: Int32Array;
  #size = 0;

  constructor(expectedSize: number) {
    const capacity = 2 ** Math.ceil(Math.log2(Math.max(16, expectedSize)));
    this.#entries = new Int32Array(capacity * 4);
    this.#slots = new Int32Array(capacity * 2).fill(absent);
  }

  get size(): number {
    return this.#size;
  }

  find(left: number, right: number): number {
    return this.#slots[this.#slotOf(left, right)] as number;
  }

  rank(entry: number): number {
    return this.#entries[entry * 4 + 2] as number;
  }

  merged(entry: number): number {
    return this.#entries[entry * 4 + 3] as number;
  }

  /** Stores a pair and returns its handle; a pair already stored stays as it is. */
  add(left: number, right: number, rank: number, merged: number): number {
    if (this.#size * 4 === this.#entries.length) this.#grow();
    const slot = this.#slotOf(left, right);
    const known = this.#slots[slot] as number;
    if (known !== absent) return known;
    this.#entries.set([left, right, rank, merged], this.#size * 4);
    this.#slots[slot] = this.#size;
    return this.#size++;
  }

  /** The slot that holds the pair, or the empty one where it belongs. */
  #slotOf(left: number, right: number): number {
    const slots = this.#slots;
    const entries = this.#entries;
    const mask = slots.length - 1;
    const mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca77);
    let slot = (mixed ^ (mixed >>> 15)) & mask;
    for (;;) {
      const entry = slots[slot] as number;
      if (entry === absent) return slot;
      if (entries[entry * 4] === left && entries[entry * 4 + 1] === right) return slot;
      slot = (slot + 1) & mask;
    }
  }

  #grow(): void {
    const entries = new Int32Array(this.#entries.length * 2);
    entries.set(this.#entries);
    this.#entries = entries;
    this.#slots = new Int32Array(this.#slots.length * 2).fill(absent);
    for (let entry = 0; entry < this.#size; entry++) {
      const slot = this.#slotOf(entries[entry * 4] as number, entries[entry * 4 + 1] as number);
      this.#slots[slot] = entry;
    }
  }
}
