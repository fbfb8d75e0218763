// The feed-forward of one layer.

import { defined, type LayerBuilder } from '../layer-builder.ts';
import type { LinearSpec } from '../leaves.ts';

/** `x * sigmoid(slope * x) * (up + 1)`, with x held below the limit and up within it. */
export interface ClampedActivation {
  readonly limit: number;
  readonly slope: number;
}

export type Activation = 'silu' | 'gelu-tanh' | 'gelu' | ClampedActivation;

export interface MlpSpec {
  readonly kind: 'mlp';
  readonly size: number;
  readonly activation: Activation;
  /** Absent: `down(activation(up))` instead of `down(activation(gate) * up)`. */
  readonly gate?: LinearSpec;
  readonly up: LinearSpec;
  readonly down: LinearSpec;
  /** Gates are lowered by their mean and N of their standard deviations, and are 0 where that is below 0. */
  readonly gateCutoff?: number;
  /** Shared expert gate: one value a row, whose sigmoid is a factor on the output. */
  readonly share?: LinearSpec;
}

export interface MlpOptions {
  readonly activation: Activation;
  readonly size?: number | undefined;
  readonly bias?: boolean;
  readonly fused?: boolean;
  readonly ungated?: boolean;
  readonly gateCutoff?: number | undefined;
}

const names = {
  gate: { hub: 'mlp.gate_proj', gguf: 'ffn_gate' },
  up: { hub: 'mlp.up_proj', gguf: 'ffn_up' },
  gateUp: { hub: 'mlp.gate_up_proj', gguf: 'ffn_up' },
  down: { hub: 'mlp.down_proj', gguf: 'ffn_down' },
};

export function mlp(layer: LayerBuilder, options: MlpOptions): MlpSpec {
  const { hiddenSize } = layer.sizes;
  const { activation, size = layer.sizes.ffnSize, bias, fused, ungated, gateCutoff } = options;
  const leaves = layer.leaves(names);
  const inner = { columns: hiddenSize, rows: size, bias };
  return defined({
    kind: 'mlp',
    size,
    activation,
    gate: ungated ? undefined : leaves.linear(fused ? 'gateUp' : 'gate', inner),
    up: leaves.linear(fused ? 'gateUp' : 'up', { ...inner, firstRow: fused ? size : 0 }),
    down: leaves.linear('down', { rows: hiddenSize, columns: size, bias }),
    gateCutoff,
  });
}
