// The tables of a rotary embedding.

import type { RopeSpec } from '../../model/spec.ts';
import { FINE_POSITIONS } from './kernels/rotate-store.ts';

/** Cosine and sine of each pair: for the first positions one by one, then for multiples of their number. */
export function ropeTurns(
  { inverseFrequencies, magnitude }: RopeSpec,
  contextLength: number,
): Float32Array<ArrayBuffer> {
  const coarse = Math.ceil(contextLength / FINE_POSITIONS);
  const table = new Float32Array((FINE_POSITIONS + coarse) * inverseFrequencies.length * 2);
  let at = 0;
  for (let entry = 0; entry < FINE_POSITIONS + coarse; entry++) {
    const isFine = entry < FINE_POSITIONS;
    const position = isFine ? entry : (entry - FINE_POSITIONS) * FINE_POSITIONS;
    for (const frequency of inverseFrequencies) {
      table[at++] = (isFine ? magnitude : 1) * Math.cos(position * frequency);
      table[at++] = (isFine ? magnitude : 1) * Math.sin(position * frequency);
    }
  }
  return table;
}
