// Rotary embeddings of rows and columns, as data.

import type { GridRopePair, GridRopeSpec } from './vision-spec.ts';

/** The first half of the pairs (i, i + half) turns by rows, the second by columns, with the same frequencies. */
export function gridRope(headSize: number, base: number): GridRopeSpec {
  const half = headSize / 2;
  const pairs = Array.from({ length: half }, (_, pair): GridRopePair => {
    const isRow = pair < half / 2;
    const frequency = base ** ((-2 * (isRow ? pair : pair - half / 2)) / half);
    return { axis: isRow ? 'row' : 'column', frequency, first: pair, second: pair + half };
  });
  return { origin: 0, pairs };
}
