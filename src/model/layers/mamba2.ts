// The state space of one layer (Mamba 2).

import type { LayerBuilder } from '../layer-builder.ts';
import { type LinearSpec, type NormSpec, rateSpec, type VectorSpec } from '../leaves.ts';
import { type ConvolutionSpec, convolutionSpec, recurrentState } from './convolution.ts';

/**
 * Each head keeps a matrix of its values by the values of a state. For every token it forgets by `exp(rate * step)`, adds
 * `step * value * write`, and is read with `read`; a share of the value is added.
 */
export interface Mamba2Spec {
  readonly kind: 'mamba2';
  readonly state: number;
  readonly heads: number;
  readonly headSize: number;
  readonly stateSize: number;
  /** Heads of a group, as many in a row, write and read alike. */
  readonly groups: number;
  readonly value: LinearSpec;
  readonly write: LinearSpec;
  readonly read: LinearSpec;
  /** Over the channels of values, writes and reads, in this order; then silu. */
  readonly convolution: ConvolutionSpec;
  /** One value a head: `step = softplus(value + bias)`. */
  readonly step: LinearSpec;
  readonly stepBias: VectorSpec;
  /** Negative numbers. */
  readonly rate: VectorSpec;
  /** One factor a head: the share of the value that is added. */
  readonly skip: VectorSpec;
  /** What is read is multiplied by `silu(gate)`, then normalized: all heads together. */
  readonly gate: LinearSpec;
  readonly norm: NormSpec;
  readonly output: LinearSpec;
}

export interface Mamba2Options extends Pick<Mamba2Spec, 'heads' | 'headSize' | 'stateSize' | 'groups'> {
  readonly length: number;
  readonly convolutionBias: boolean;
  readonly projectionBias: boolean;
  readonly logarithmicRates: boolean;
}

const names = {
  mambaInput: { hub: 'mamba.in_proj', gguf: 'ssm_in' },
  mambaConvolution: { hub: 'mamba.conv1d', gguf: 'ssm_conv1d' },
  mambaStep: { hub: { bias: 'mamba.dt_bias' }, gguf: 'ssm_dt' },
  mambaRate: { hub: { weight: 'mamba.A_log' }, gguf: { weight: 'ssm_a' } },
  mambaSkip: { hub: { weight: 'mamba.D' }, gguf: { weight: 'ssm_d' } },
  mambaNorm: { hub: 'mamba.norm', gguf: 'ssm_norm' },
  mambaOutput: { hub: 'mamba.out_proj', gguf: 'ssm_out' },
};

export function mamba2(layer: LayerBuilder, options: Mamba2Options): Mamba2Spec {
  const { hiddenSize } = layer.sizes;
  const { heads, headSize, stateSize, groups, length, projectionBias: bias } = options;
  const leaves = layer.leaves(names);
  const values = heads * headSize;
  const shared = groups * stateSize;
  // In one tensor: the gate, values, writes and reads, steps.
  const input = (rows: number, firstRow: number) =>
    leaves.linear('mambaInput', { rows, firstRow, columns: hiddenSize, bias });
  const convolution = convolutionSpec(leaves, 'mambaConvolution', values + 2 * shared, {
    length,
    bias: options.convolutionBias,
  });
  return {
    kind: 'mamba2',
    state: layer.addRecurrentState(recurrentState(convolution, heads * headSize * stateSize)),
    heads,
    headSize,
    stateSize,
    groups,
    gate: input(values, 0),
    value: input(values, values),
    write: input(shared, 2 * values),
    read: input(shared, 2 * values + shared),
    step: input(heads, 2 * values + 2 * shared),
    convolution,
    stepBias: leaves.biasVector('mambaStep', heads),
    rate: rateSpec(leaves.names.weight('mambaRate'), heads, options.logarithmicRates),
    skip: leaves.vector('mambaSkip', heads),
    norm: leaves.norm('mambaNorm', values),
    output: leaves.linear('mambaOutput', { rows: hiddenSize, columns: values, bias }),
  };
}
