// The residual stream after some layers of a step, for a head that reads it in place of the last state.

export class Features {
  /** Of each row of the step, what was taken, side by side. */
  readonly rows: Float32Array;
  readonly #after: readonly number[];
  readonly #hiddenSize: number;

  /** `after`: how many layers. */
  constructor(after: readonly number[], rowCount: number, hiddenSize: number) {
    this.#after = after;
    this.#hiddenSize = hiddenSize;
    this.rows = new Float32Array(rowCount * after.length * hiddenSize);
  }

  take(layers: number, stream: Float32Array): void {
    const size = this.#hiddenSize;
    for (const [place, after] of this.#after.entries()) {
      if (after !== layers) continue;
      for (let row = 0; row < stream.length / size; row++) {
        this.rows.set(
          stream.subarray(row * size, (row + 1) * size),
          (row * this.#after.length + place) * size,
        );
      }
    }
  }
}
