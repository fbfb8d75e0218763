// The merge loop of BPE and SentencePiece: of all neighbouring pairs, the one of lowest rank merges first, the
// leftmost of equals. A heap and a linked list keep it O(n log n), also for a hostile piece of a hundred thousand
// characters.

import { STEP_SIZE, type Steps } from './steps.ts';

/** Symbols are token ids; ranks are integers from 0 on. */
export interface MergeRules {
  /** A handle for `rank` and `merged`, or -1 where the pair does not merge. */
  find(left: number, right: number): number;
  rank(handle: number): number;
  merged(handle: number): number;
}

const none = -1;
// A heap key orders by rank, then by position: both fit a double exactly.
const positionSpan = 2 ** 31;

export class MergeLoop {
  readonly #rules: MergeRules;
  #previous = new Int32Array(64);
  #next = new Int32Array(64);
  #pair = new Int32Array(64);
  #heap = new Float64Array(192);
  #heapSize = 0;

  constructor(rules: MergeRules) {
    this.#rules = rules;
  }

  /** Merges the first `count` symbols in place and returns how many are left, in order from index 0. */
  run(symbols: Int32Array, count: number): number {
    if (count < 2) return count;
    this.#reserve(count, 2 * count);
    this.#link(count);
    for (let i = 0; i < count; i++) this.#pushPair(symbols, i);
    while (this.#heapSize > 0) this.#mergeBest(symbols);
    return this.#compact(symbols);
  }

  /** The same in steps; the loop is busy until they end. */
  *steps(symbols: Int32Array, count: number): Steps<number> {
    if (count < 2) return count;
    this.#reserve(count, count);
    this.#link(count);
    for (let i = 0; i < count; i++) {
      this.#pushPair(symbols, i);
      if (i % STEP_SIZE === 0) yield;
    }
    for (let merges = 1; this.#heapSize > 0; merges++) {
      this.#mergeBest(symbols);
      if (merges % STEP_SIZE === 0) yield;
    }
    return this.#compact(symbols);
  }

  #link(count: number): void {
    this.#heapSize = 0;
    for (let i = 0; i < count; i++) {
      this.#previous[i] = i - 1;
      this.#next[i] = i + 1 < count ? i + 1 : none;
    }
  }

  #mergeBest(symbols: Int32Array): void {
    const key = this.#pop();
    const rank = Math.floor(key / positionSpan);
    const left = key - rank * positionSpan;
    const handle = this.#pair[left] as number;
    // The pair has changed since.
    if (handle === none || this.#rules.rank(handle) !== rank) return;
    const right = this.#next[left] as number;
    const after = this.#next[right] as number;
    symbols[left] = this.#rules.merged(handle);
    this.#next[left] = after;
    this.#pair[right] = none;
    if (after !== none) this.#previous[after] = left;
    this.#pushPair(symbols, left);
    const before = this.#previous[left] as number;
    if (before !== none) this.#pushPair(symbols, before);
  }

  #pushPair(symbols: Int32Array, left: number): void {
    const right = this.#next[left] as number;
    const handle =
      right === none ? none : this.#rules.find(symbols[left] as number, symbols[right] as number);
    this.#pair[left] = handle;
    if (handle !== none) this.#push(this.#rules.rank(handle) * positionSpan + left);
  }

  #compact(symbols: Int32Array): number {
    let length = 0;
    for (let i = 0; i !== none; i = this.#next[i] as number) symbols[length++] = symbols[i] as number;
    return length;
  }

  #push(key: number): void {
    const heap = this.#heap;
    let at = this.#heapSize++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((heap[parent] as number) <= key) break;
      heap[at] = heap[parent] as number;
      at = parent;
    }
    heap[at] = key;
  }

  #pop(): number {
    const heap = this.#heap;
    const top = heap[0] as number;
    const last = heap[--this.#heapSize] as number;
    const size = this.#heapSize;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && (heap[child + 1] as number) < (heap[child] as number)) child++;
      if ((heap[child] as number) >= last) break;
      heap[at] = heap[child] as number;
      at = child;
    }
    heap[at] = last;
    return top;
  }

  /** At most one pair per symbol enters at first and two per merge after: three per symbol in all. */
  #reserve(count: number, capacity: number): void {
    if (this.#next.length >= count) return;
    this.#previous = new Int32Array(capacity);
    this.#next = new Int32Array(capacity);
    this.#pair = new Int32Array(capacity);
    this.#heap = new Float64Array(capacity * 3);
  }
}

const absent = -1;

export class PairTable implements MergeRules {
  /** Open addressing: entry index by hash, at most half full. */
  #slots: Int32Array;
  /** Left, right, rank and merged of each entry. */
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

  /** Returns the handle; a known pair stays as it is. */
  add(left: number, right: number, rank: number, merged: number): number {
    if (this.#size * 4 === this.#entries.length) this.#grow();
    const slot = this.#slotOf(left, right);
    const known = this.#slots[slot] as number;
    if (known !== absent) return known;
    this.#entries.set([left, right, rank, merged], this.#size * 4);
    this.#slots[slot] = this.#size;
    return this.#size++;
  }

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
