// The feed-forward of a layer.

import { sigmoid } from '../../../model/activation-curves.ts';
import type { MlpSpec } from '../../../model/spec.ts';
import { activate } from '../activation.ts';
import { applyLinear } from '../linear.ts';
import type { RunBody } from '../step-context.ts';
import type { Loaded } from '../weights.ts';

export const runMlp: RunBody<MlpSpec> = (_context, body, input) => mlp(body, input);

/** `stepRows` as of `applyLinear`. */
export function mlp(body: Loaded<MlpSpec>, input: Float32Array, stepRows?: ArrayLike<number>): Float32Array {
  const { gate, up, down, share, gateCutoff } = body;
  const gates = gate === undefined ? undefined : applyLinear(gate, input, stepRows);
  if (gates !== undefined && gateCutoff !== undefined) cutGates(gates, body.size, gateCutoff);
  const inner = activate(body.activation, gates, applyLinear(up, input, stepRows));
  const output = applyLinear(down, inner, stepRows);
  if (share === undefined) return output;
  const shares = applyLinear(share, input, stepRows);
  const size = output.length / shares.length;
  return output.map((value, index) => value * sigmoid(shares[Math.floor(index / size)] as number));
}

/** Lowers each row of gates by its mean plus `cutoff` standard deviations, but not below 0, in place. */
function cutGates(gates: Float32Array, size: number, cutoff: number): void {
  for (let at = 0; at < gates.length; at += size) {
    const run = gates.subarray(at, at + size);
    const mean = run.reduce((sum, value) => sum + value, 0) / size;
    const variance = run.reduce((sum, value) => sum + (value - mean) ** 2, 0) / size;
    const limit = mean + cutoff * Math.sqrt(variance);
    for (const [index, value] of run.entries()) run[index] = Math.max(0, value - limit);
  }
}
