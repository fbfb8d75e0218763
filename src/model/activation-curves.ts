// Activation functions of one value, in double precision.

import type { Activation } from './layers/mlp.ts';

export function sigmoid(value: number): number {
  return 1 / (1 + Math.exp(-value));
}

export function silu(value: number): number {
  return value * sigmoid(value);
}

export const curves: Readonly<Record<Extract<Activation, string>, (value: number) => number>> = {
  silu,
  'gelu-tanh': (value) =>
    0.5 * value * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (value + 0.044715 * value ** 3))),
  gelu: (value) => 0.5 * value * (1 + errorFunction(value / Math.SQRT2)),
};

/** A series for small arguments, a continued fraction for larger ones. */
function errorFunction(x: number): number {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  const square = size * size;
  if (size < 2.5) {
    let term = size;
    let sum = size;
    for (let n = 1; n < 60; n++) {
      term *= -square / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = size;
  for (let n = 40; n >= 1; n--) fraction = size + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-square) / (fraction * Math.sqrt(Math.PI)));
}
