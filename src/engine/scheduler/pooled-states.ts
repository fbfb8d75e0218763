// A sequence that becomes one vector: the states its pooling wants, added up as they are computed. The order is that of
// the positions, in double precision, so that neither chunks nor neighbours nor preemption change a bit. Without pooling the
// states stay as they are, one after the other.

import type { StatePooling } from '../../model/pooling.ts';

/** Positions whose states are wanted, in order: from the first to before the second. */
export type Stretch = readonly [from: number, to: number];

const none: Stretch = [0, 0];

export class PooledStates {
  readonly #from: number;
  readonly #to: number;
  /** The next position whose state is wanted. */
  #next: number;
  #sum: Float64Array | undefined;
  /** Of all positions, where they are not pooled. */
  #all: Float32Array | undefined;
  readonly #isPooled: boolean;

  constructor(pooling: StatePooling, length: number) {
    this.#isPooled = pooling !== 'none';
    this.#from = pooling === 'last' ? length - 1 : 0;
    this.#to = pooling === 'cls' ? 1 : length;
    this.#next = this.#from;
  }

  get isComplete(): boolean {
    return this.#next === this.#to;
  }

  /** Rows before it are computed for their KV alone. */
  get firstRequiredPosition(): number {
    return this.isComplete ? Number.POSITIVE_INFINITY : this.#next;
  }

  /** Which states of positions `start … start + count - 1` are wanted. */
  wantedOf(start: number, count: number): Stretch {
    const from = Math.max(start, this.#next);
    const to = Math.min(start + count, this.#to);
    return from < to ? [from, to] : none;
  }

  /** Adds states of the next positions, one after the other. */
  add(states: Float32Array, rows: number): void {
    const size = states.length / rows;
    if (!this.#isPooled) {
      this.#all ??= new Float32Array(this.#to * size);
      this.#all.set(states, this.#next * size);
      this.#next += rows;
      return;
    }
    this.#sum ??= new Float64Array(size);
    const sum = this.#sum;
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < size; i++) sum[i] = (sum[i] as number) + (states[row * size + i] as number);
    }
    this.#next += rows;
  }

  /** Undefined where the model computed something that is not a number. */
  vector(): Float32Array | undefined {
    const vector =
      this.#all ?? Float32Array.from(this.#sum ?? [], (value) => value / (this.#to - this.#from));
    return vector.every(Number.isFinite) ? vector : undefined;
  }
}
