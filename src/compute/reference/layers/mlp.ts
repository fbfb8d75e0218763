// The feed-forward of a layer, and mixtures of them.

import { activate, sigmoid } from '../activation.ts';
import { applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { addInto } from '../vector.ts';
import type { Experts, Laurel, Mlp } from '../weights.ts';
import { route } from './router.ts';

/** `stepRows` as of `applyLinear`. */
export function mlp(body: Mlp, input: Float32Array, stepRows?: ArrayLike<number>): Float32Array {
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

/** Each run of gates lowered by its mean and so many deviations, and never below 0, in place. */
function cutGates(gates: Float32Array, size: number, cutoff: number): void {
  for (let at = 0; at < gates.length; at += size) {
    const run = gates.subarray(at, at + size);
    const mean = run.reduce((sum, value) => sum + value, 0) / size;
    const variance = run.reduce((sum, value) => sum + (value - mean) ** 2, 0) / size;
    const limit = mean + cutoff * Math.sqrt(variance);
    for (const [index, value] of run.entries()) run[index] = Math.max(0, value - limit);
  }
}

/** `x + norm(up(down(x)))`. */
export function runLaurel({ down, up, norm }: Laurel, input: Float32Array, epsilon: number): Float32Array {
  const output = normalize(applyLinear(up, applyLinear(down, input)), up.matrix.rows, norm, epsilon);
  addInto(output, input);
  return output;
}

/** `stream` is the residual stream itself, which some routers look at. */
export function mixExperts(
  mixture: Experts,
  input: Float32Array,
  stream: Float32Array,
  epsilon: number,
): Float32Array {
  const { experts, scalesInput, router } = mixture;
  const output = new Float32Array(input.length);
  const size = router.linear.matrix.columns;
  for (const [row, choices] of route(mixture, input, stream, epsilon).entries()) {
    const at = row * size;
    const from = input.subarray(at, at + size);
    for (const { expert, weight } of choices) {
      const body = experts[expert] as Mlp;
      const scaled = scalesInput === true;
      const given = mlp(body, scaled ? from.map((value) => value * weight) : from, [row]);
      for (const [index, value] of given.entries()) {
        output[at + index] = (output[at + index] as number) + (scaled ? 1 : weight) * value;
      }
    }
  }
  return output;
}
