// The causal convolution of layers that keep a recurrent state.

import { defined, type Leaves, type RecurrentStateSpec } from '../layer-builder.ts';
import type { VectorSpec } from '../leaves.ts';

/** A causal convolution of each channel with its own past: `length` weights a channel, the newest last. */
export interface ConvolutionSpec {
  readonly weight: VectorSpec;
  readonly bias?: VectorSpec;
  readonly length: number;
}

export function convolutionSpec<Role extends string>(
  leaves: Leaves<Role>,
  role: Role,
  channels: number,
  { length, bias }: { readonly length: number; readonly bias?: boolean },
): ConvolutionSpec {
  return defined({
    weight: leaves.vector(role, channels * length),
    bias: bias ? leaves.biasVector(role, channels) : undefined,
    length,
  });
}

/** Values of one token that are convolved with those before. */
export function channelsOf({ convolution }: { readonly convolution: ConvolutionSpec }): number {
  return convolution.weight.size / convolution.length;
}

/**
 * First the channels of the last tokens, the oldest first, as far as the convolution reaches back; then `learnt` values of
 * the layer, head by head.
 */
export function recurrentState(convolution: ConvolutionSpec, learnt: number): RecurrentStateSpec {
  return { size: (convolution.length - 1) * channelsOf({ convolution }) + learnt };
}
