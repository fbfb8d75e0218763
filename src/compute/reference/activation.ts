// Activation functions.

import { curves } from '../../model/activation-curves.ts';
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

export function softplus(value: number): number {
  return value > 20 ? value : Math.log1p(Math.exp(value));
}
