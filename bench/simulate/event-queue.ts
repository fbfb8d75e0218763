// What will happen when: a heap of moments. Equal times keep the order in which they were planned, so that a run is the
// same every time.

interface Moment {
  readonly atMs: number;
  readonly order: number;
  readonly happen: (nowMs: number) => void;
}

export class EventQueue {
  readonly #heap: Moment[] = [];
  #planned = 0;
  #nowMs = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Moments that have been planned, since the start. */
  get planned(): number {
    return this.#planned;
  }

  at(atMs: number, happen: (nowMs: number) => void): void {
    this.#planned += 1;
    const moment = { atMs: Math.max(atMs, this.#nowMs), order: this.#planned, happen };
    const heap = this.#heap;
    let index = heap.length;
    heap.push(moment);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (isBefore(heap[parent] as Moment, moment)) break;
      heap[index] = heap[parent] as Moment;
      index = parent;
    }
    heap[index] = moment;
  }

  /** Goes on while something is planned and it is wanted. */
  run(isWanted: () => boolean): void {
    while (this.#heap.length > 0 && isWanted()) {
      const moment = this.#takeFirst();
      this.#nowMs = moment.atMs;
      moment.happen(moment.atMs);
    }
  }

  #takeFirst(): Moment {
    const heap = this.#heap;
    const first = heap[0] as Moment;
    const last = heap.pop() as Moment;
    if (heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Moment, heap[child] as Moment)) child += 1;
      if (isBefore(last, heap[child] as Moment)) break;
      heap[index] = heap[child] as Moment;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(a: Moment, b: Moment): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
