// The feed-forward of a layer, and mixtures of them.

import { activate, sigmoid } from './activation.ts';
import { applyLinear } from './linear.ts';
import { route } from './router.ts';
import type { Experts, FeedForward } from './weights.ts';

export function feedForward({ spec, gate, up, down, share }: FeedForward, input: Float32Array): Float32Array {
  const gates = gate === undefined ? undefined : applyLinear(gate, input);
  const output = applyLinear(down, activate(spec.activation, gates, applyLinear(up, input)));
  if (share === undefined) return output;
  const shares = applyLinear(share, input);
  const size = output.length / shares.length;
  return output.map((value, index) => value * sigmoid(shares[Math.floor(index / size)] as number));
}

/** `stream` is the residual stream itself, which some routers look at. */
export function mixExperts(
  mixture: Experts,
  input: Float32Array,
  stream: Float32Array,
  epsilon: number,
): Float32Array {
  const { experts, spec } = mixture;
  const output = new Float32Array(input.length);
  const size = mixture.router.matrix.columns;
  for (const [row, choices] of route(mixture, input, stream, epsilon).entries()) {
    const at = row * size;
    const from = input.subarray(at, at + size);
    for (const { expert, weight } of choices) {
      const body = experts[expert] as FeedForward;
      const scaled = spec.scalesInput === true;
      const given = feedForward(body, scaled ? from.map((value) => value * weight) : from);
      for (const [index, value] of given.entries()) {
        output[at + index] = (output[at + index] as number) + (scaled ? 1 : weight) * value;
      }
    }
  }
  return output;
}
