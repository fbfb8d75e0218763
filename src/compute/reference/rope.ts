// The rotary embedding of pairs (i, i + half) of each head.

import type { RopeSpec } from '../../model/spec.ts';

/** For every row of a batch and every pair. */
export interface Rotations {
  readonly pairs: number;
  readonly cosines: Float64Array;
  readonly sines: Float64Array;
}

/** `axisPositions`: three for each row, where they differ. */
export function rotationsAt(rope: RopeSpec, positions: Int32Array, axisPositions?: Int32Array): Rotations {
  const { axes, magnitude } = rope;
  const pairs = rope.inverseFrequencies.length;
  const cosines = new Float64Array(positions.length * pairs);
  const sines = new Float64Array(positions.length * pairs);
  for (const [row, own] of positions.entries()) {
    for (const [pair, frequency] of rope.inverseFrequencies.entries()) {
      const position = axisPositions?.[3 * row + (axes?.[pair] ?? 0)] ?? own;
      cosines[row * pairs + pair] = magnitude * Math.cos(position * frequency);
      sines[row * pairs + pair] = magnitude * Math.sin(position * frequency);
    }
  }
  return { pairs, cosines, sines };
}

/** In place. Values past the pairs stay as they are. */
export function rotate(heads: Float32Array, headCount: number, headSize: number, by: Rotations): void {
  const { pairs, cosines, sines } = by;
  const rows = heads.length / (headCount * headSize);
  for (let row = 0; row < rows; row++) {
    for (let head = 0; head < headCount; head++) {
      const at = (row * headCount + head) * headSize;
      for (let pair = 0; pair < pairs; pair++) {
        const cosine = cosines[row * pairs + pair] as number;
        const sine = sines[row * pairs + pair] as number;
        const first = heads[at + pair] as number;
        const second = heads[at + pair + pairs] as number;
        heads[at + pair] = first * cosine - second * sine;
        heads[at + pair + pairs] = second * cosine + first * sine;
      }
    }
  }
}
