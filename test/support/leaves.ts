// Leaves of a ModelSpec that tests put together by hand.

import type { LinearSpec, NormSpec } from '../../src/model/spec.ts';

export function linear(tensor: string, rows: number, columns: number): LinearSpec {
  return { leaf: 'linear', weight: { tensor, firstRow: 0, rows }, columns };
}

export function rms(size: number, weight?: string): NormSpec {
  return { leaf: 'norm', kind: 'rms', size, ...(weight === undefined ? {} : { weight }) };
}
