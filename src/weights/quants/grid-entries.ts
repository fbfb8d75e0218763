// What readers of the IQ types share: values of grid entries under signs, and the codebooks that panels keep them by.

/** Seven signs and the eighth, which makes the number of minus signs even. */
export function evenSigns(bits: number): number {
  const folded = bits ^ (bits >> 4);
  const parity = (0x6996 >> (folded & 15)) & 1;
  return bits | (parity << 7);
}

/** Eight values from `at` on: those of one or two entries, with a minus where a bit of `signs` is set. */
export function setSigned(
  values: Int16Array,
  at: number,
  grid: Int8Array,
  entries: readonly number[],
  signs: number,
): void {
  const size = 8 / entries.length;
  for (let i = 0; i < 8; i++) {
    const entry = entries[Math.floor(i / size)] as number;
    const value = grid[entry * size + (i % size)] as number;
    values[at + i] = (signs >> i) & 1 ? -value : value;
  }
}

/** A codebook of up to eight steps and their negatives. */
export function signedSteps(steps: readonly number[]): Int8Array<ArrayBuffer> {
  const both = new Int8Array(16);
  both.set(steps);
  both.set(
    steps.map((step) => -step),
    8,
  );
  return both;
}
