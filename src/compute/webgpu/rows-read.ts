// Final states as passes leave them: rows that are padded to pairs.

/** Rows of several passes, without their padding. */
export class RowsRead {
  readonly values: Float32Array;
  readonly #size: number;
  readonly #stride: number;
  #rows = 0;

  constructor(rows: number, size: number, stride: number) {
    this.values = new Float32Array(rows * size);
    this.#size = size;
    this.#stride = stride;
  }

  bytesOf(rows: number): number {
    return 4 * rows * this.#stride;
  }

  take(bytes: ArrayBuffer): void {
    const given = new Float32Array(bytes);
    for (let at = 0; at < given.length; at += this.#stride) {
      this.values.set(given.subarray(at, at + this.#size), this.#size * this.#rows++);
    }
  }
}
