// RMS norm and layer norm.

import type { NormWeights } from '../../model/weight-reader.ts';

/** Each run of `size` values, in place. There may be weights for several runs. */
export function normalize(
  values: Float32Array,
  size: number,
  { kind, weight, bias }: NormWeights,
  epsilon: number,
): Float32Array {
  for (let at = 0; at < values.length; at += size) {
    const mean = kind === 'layer' ? sumOf(values, at, size, (value) => value) / size : 0;
    const square = sumOf(values, at, size, (value) => (value - mean) ** 2) / size;
    const scale = 1 / Math.sqrt(square + epsilon);
    const first = weight === undefined ? 0 : at % weight.length;
    for (let i = 0; i < size; i++) {
      const scaled = ((values[at + i] as number) - mean) * scale * (weight?.[first + i] ?? 1);
      values[at + i] = scaled + (bias?.[i] ?? 0);
    }
  }
  return values;
}

function sumOf(values: Float32Array, at: number, size: number, term: (value: number) => number): number {
  let sum = 0;
  for (let i = 0; i < size; i++) sum += term(values[at + i] as number);
  return sum;
}
