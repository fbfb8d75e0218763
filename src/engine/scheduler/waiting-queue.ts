// Waiting sequences in order of urgency: a binary heap on their static key. Each sequence knows its place in
// the heap, so that any of them can be removed in O(log n).

import { compareKeys, type Sequence } from '../sequence.ts';

export class WaitingQueue {
  readonly #heap: Sequence[] = [];

  get size(): number {
    return this.#heap.length;
  }

  /** In no particular order. */
  [Symbol.iterator](): Iterator<Sequence> {
    return this.#heap[Symbol.iterator]();
  }

  has(sequence: Sequence): boolean {
    return this.#heap[sequence.queueIndex] === sequence;
  }

  peek(): Sequence | undefined {
    return this.#heap[0];
  }

  push(sequence: Sequence): void {
    this.#heap.push(sequence);
    this.#rise(sequence, this.#heap.length - 1);
  }

  remove(sequence: Sequence): void {
    if (!this.has(sequence)) throw new Error(`sequence ${sequence.id} is not in the queue`);
    const hole = sequence.queueIndex;
    const last = this.#heap.pop() as Sequence;
    if (last === sequence) return;
    this.#rise(last, hole);
    this.#sink(last, last.queueIndex);
  }

  #rise(sequence: Sequence, from: number): void {
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#heap[parentIndex] as Sequence;
      if (compareKeys(parent, sequence) <= 0) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(sequence, index);
  }

  #sink(sequence: Sequence, from: number): void {
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      if (childIndex >= this.#heap.length) break;
      const right = this.#heap[childIndex + 1];
      if (right !== undefined && compareKeys(right, this.#heap[childIndex] as Sequence) < 0) childIndex += 1;
      const child = this.#heap[childIndex] as Sequence;
      if (compareKeys(sequence, child) <= 0) break;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(sequence, index);
  }

  #place(sequence: Sequence, index: number): void {
    this.#heap[index] = sequence;
    sequence.queueIndex = index;
  }
}
