// Sequences that wait for a running one because it is about to compute a prefix they share, so that it is
// computed once. The owner takes over the urgency of those that wait for it.

import { publishedBlocks } from '../cache/block-tables.ts';
import type { Sequence } from '../sequence.ts';

export interface Deferral {
  readonly sequence: Sequence;
  /** The running sequence that computes the prefix. */
  readonly owner: Sequence;
  /** Published blocks of the owner that end the wait. */
  readonly blocks: number;
}

interface Waiters {
  /** Each with the number of published blocks that ends its wait. */
  readonly until: Map<Sequence, number>;
  /** No wait ends before the owner has published this many blocks. */
  soonest: number;
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
      waiters = { until: new Map(), soonest: blocks };
      this.#waiters.set(owner, waiters);
    }
    this.#owners.set(sequence, owner);
    waiters.until.set(sequence, blocks);
    waiters.soonest = Math.min(waiters.soonest, blocks);
    owner.rank = Math.min(owner.rank, sequence.key);
  }

  /** Takes a sequence out before its time, if it is deferred. */
  remove(sequence: Sequence): void {
    const owner = this.#owners.get(sequence);
    if (owner === undefined) return;
    this.#owners.delete(sequence);
    this.#waiters.get(owner)?.until.delete(sequence);
    if (sequence.key === owner.rank) this.#settle(owner);
  }

  /** Ends and returns the waits for blocks that the owner has published by now. */
  takeServed(owner: Sequence): Sequence[] {
    const waiters = this.#waiters.get(owner);
    const published = publishedBlocks(owner);
    if (waiters === undefined || published < waiters.soonest) return [];
    const served = [...waiters.until.keys()].filter(
      (each) => (waiters.until.get(each) as number) <= published,
    );
    for (const sequence of served) {
      this.#owners.delete(sequence);
      waiters.until.delete(sequence);
    }
    this.#settle(owner);
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
    owner.rank = owner.key;
    if (waiters === undefined) return;
    if (waiters.until.size === 0) this.#waiters.delete(owner);
    waiters.soonest = Number.POSITIVE_INFINITY;
    for (const [waiter, blocks] of waiters.until) {
      waiters.soonest = Math.min(waiters.soonest, blocks);
      owner.rank = Math.min(owner.rank, waiter.key);
    }
  }
}
