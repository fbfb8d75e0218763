// A queue of events. Equal times keep the order in which they were planned, so that a run is deterministic.

import { Heap } from '#src/engine/scheduler/heap.ts';

interface Moment {
  readonly atMs: number;
  readonly order: number;
  readonly happen: (nowMs: number) => void;
}

export class EventQueue {
  readonly #moments = new Heap<Moment>((a, b) => a.atMs - b.atMs || a.order - b.order);
  #planned = 0;
  #nowMs = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  at(atMs: number, happen: (nowMs: number) => void): void {
    this.#planned += 1;
    this.#moments.push({ atMs: Math.max(atMs, this.#nowMs), order: this.#planned, happen });
  }

  run(isWanted: () => boolean): void {
    while (isWanted() && this.next());
  }

  /** False where there is none. */
  next(): boolean {
    const next = this.#moments.peek();
    if (next === undefined) return false;
    this.#moments.remove(next);
    this.#nowMs = next.atMs;
    next.happen(next.atMs);
    return true;
  }
}
