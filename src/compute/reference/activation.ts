// Activation functions.

import type { Activation } from '../../model/spec.ts';

/** `activation(gate) * up`, or `activation(up)` without a gate. */
export function activate(
  activation: Activation,
  gate: Float32Array | undefined,
  up: Float32Array,
): Float32Array {
  if (typeof activation !== 'string') {
    const { limit, slope } = activation;
    return up.map((value, index) => {
      const x = Math.min(gate?.[index] as number, limit);
      return (x / (1 + Math.exp(-slope * x))) * (Math.min(Math.max(value, -limit), limit) + 1);
    });
  }
  const curve = curves[activation];
  if (gate === undefined) return up.map(curve);
  return up.map((value, index) => curve(gate[index] as number) * value);
}

export function sigmoid(value: number): number {
  return 1 / (1 + Math.exp(-value));
}

export function silu(value: number): number {
  return value * sigmoid(value);
}

export function softplus(value: number): number {
  return value > 20 ? value : Math.log1p(Math.exp(value));
}

const curves: Readonly<Record<Extract<Activation, string>, (value: number) => number>> = {
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
