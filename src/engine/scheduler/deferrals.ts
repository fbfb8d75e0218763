// Sequences that wait for a running one because it is about to compute a prefix they share, so that it is
// computed once. The owner takes over the urgency of those that wait for it.

import { fullBlocks } from '../cache/block-tables.ts';
import { Heap } from './heap.ts';
import { compareKeys, type Sequence } from './sequence.ts';

export interface Deferral {
  readonly sequence: Sequence;
  /** The running sequence that computes the prefix. */
  readonly owner: Sequence;
  /** Published blocks of the owner that end the wait. */
  readonly blocks: number;
}

/** Those that wait for one owner: thousands may. */
class Waiters {
  /** Each with the number of published blocks that ends its wait. */
  readonly until = new Map<Sequence, number>();
  readonly #byBlocks = new Heap<Sequence>((a, b) => this.#blocksOf(a) - this.#blocksOf(b));
  readonly #byUrgency = new Heap<Sequence>(compareKeys);

  /** The next whose wait ends. */
  get next(): Sequence | undefined {
    return this.#byBlocks.peek();
  }

  get mostUrgent(): Sequence | undefined {
    return this.#byUrgency.peek();
  }

  add(sequence: Sequence, blocks: number): void {
    this.until.set(sequence, blocks);
    this.#byBlocks.push(sequence);
    this.#byUrgency.push(sequence);
  }

  delete(sequence: Sequence): void {
    this.#byBlocks.remove(sequence);
    this.#byUrgency.remove(sequence);
    this.until.delete(sequence);
  }

  #blocksOf(sequence: Sequence): number {
    return this.until.get(sequence) as number;
  }
}

export class Deferrals {
  readonly #owners = new Map<Sequence, Sequence>();
  readonly #waiters = new Map<Sequence, Waiters>();

  get size(): number {
    return this.#owners.size;
  }

  *[Symbol.iterator](): Generator<Deferral> {
    for (const [owner, { until }] of this.#waiters) {
      for (const [sequence, blocks] of until) yield { sequence, owner, blocks };
    }
  }

  add({ sequence, owner, blocks }: Deferral): void {
    let waiters = this.#waiters.get(owner);
    if (waiters === undefined) {
      waiters = new Waiters();
      this.#waiters.set(owner, waiters);
    }
    this.#owners.set(sequence, owner);
    waiters.add(sequence, blocks);
    owner.rank = Math.min(owner.rank, sequence.key);
  }

  /** Takes a sequence out before its time, if it is deferred. */
  remove(sequence: Sequence): void {
    const owner = this.#owners.get(sequence);
    if (owner === undefined) return;
    this.#owners.delete(sequence);
    this.#waiters.get(owner)?.delete(sequence);
    this.#settle(owner);
  }

  /** Ends and returns the waits for blocks that the owner has published by now. */
  takeServed(owner: Sequence): Sequence[] {
    const waiters = this.#waiters.get(owner);
    if (waiters === undefined) return [];
    const published = fullBlocks(owner);
    const served: Sequence[] = [];
    for (let next = waiters.next; next !== undefined; next = waiters.next) {
      if ((waiters.until.get(next) as number) > published) break;
      this.#owners.delete(next);
      waiters.delete(next);
      served.push(next);
    }
    if (served.length > 0) this.#settle(owner);
    return served;
  }

  /** Ends and returns all waits for an owner that leaves. */
  takeAll(owner: Sequence): Sequence[] {
    const sequences = [...(this.#waiters.get(owner)?.until.keys() ?? [])];
    for (const sequence of sequences) this.#owners.delete(sequence);
    this.#waiters.delete(owner);
    owner.rank = owner.key;
    return sequences;
  }

  /** Brings the owner's rank up to date after waits ended. */
  #settle(owner: Sequence): void {
    const waiters = this.#waiters.get(owner);
    if (waiters?.until.size === 0) this.#waiters.delete(owner);
    owner.rank = Math.min(owner.key, waiters?.mostUrgent?.key ?? owner.key);
  }
}
