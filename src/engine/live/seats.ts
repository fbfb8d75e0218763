// Seats for sequences that run: one keeps its number while it runs, so that an eye can follow it. A number that became
// free is given away only after the next snapshot, so that between two of them it means one sequence.

import type { Sequence } from '../scheduler/sequence.ts';

export class Seats {
  readonly #seats = new Map<Sequence, number>();
  /** Smallest last. */
  #free: number[] = [];
  #count = 0;

  of(sequence: Sequence): number {
    let seat = this.#seats.get(sequence);
    if (seat === undefined) {
      seat = this.#free.pop() ?? this.#count++;
      this.#seats.set(sequence, seat);
    }
    return seat;
  }

  /** Takes the seats of all that run no more. */
  clear(): void {
    const before = this.#free.length;
    for (const [sequence, seat] of this.#seats) {
      if (sequence.state === 'running') continue;
      this.#seats.delete(sequence);
      this.#free.push(seat);
    }
    if (this.#free.length > before) this.#free.sort((a, b) => b - a);
  }
}
