// The gated delta net of one layer (Qwen 3 Next and 3.5).

import type { LayerBuilder, Leaves } from '../layer-builder.ts';
import { type LinearSpec, type NormSpec, type RowSlice, rateSpec, type VectorSpec } from '../leaves.ts';
import { type ConvolutionSpec, convolutionSpec, recurrentState } from './convolution.ts';

/**
 * Each value head keeps a matrix that maps keys to values. For every token it forgets by `exp(decay)`, then corrects what
 * the key maps to by a share of the difference to the value, then is asked with the query.
 */
export interface GatedDeltaNetSpec {
  readonly kind: 'gated-delta-net';
  readonly state: number;
  readonly keyHeads: number;
  readonly keySize: number;
  readonly valueHeads: number;
  readonly valueSize: number;
  /** Which value heads share a key head: as many in a row, or those N apart. */
  readonly sharing: 'neighbours' | 'strided';
  readonly query: LinearSpec;
  readonly key: LinearSpec;
  readonly value: LinearSpec;
  /** Over the channels of queries, keys and values, in this order. */
  readonly convolution: ConvolutionSpec;
  /** One value a head: the sigmoid of it is the share of a correction. */
  readonly share: LinearSpec;
  /** One value a head: `decay = rate * softplus(value + bias)`. */
  readonly decay: LinearSpec;
  readonly decayBias: VectorSpec;
  /** Negative numbers. */
  readonly decayRate: VectorSpec;
  /** Of each head's output, which is then multiplied by `silu(gate)`. */
  readonly norm: NormSpec;
  readonly gate: LinearSpec;
  readonly output: LinearSpec;
}

type Sizes = 'keyHeads' | 'keySize' | 'valueHeads' | 'valueSize' | 'sharing';

export interface GatedDeltaNetOptions extends Pick<GatedDeltaNetSpec, Sizes> {
  readonly length: number;
  /** Large projections, and small ones, lie in one tensor, key head by key head. */
  readonly largeByKeyHead: boolean;
  readonly smallByKeyHead: boolean;
  readonly logarithmicRates: boolean;
}

const names = {
  deltaQueryKeyValue: { hub: 'linear_attn.in_proj_qkv', gguf: 'attn_qkv' },
  deltaQueryKeyValueGate: { hub: 'linear_attn.in_proj_qkvz' },
  deltaGate: { hub: 'linear_attn.in_proj_z', gguf: 'attn_gate' },
  deltaBeta: { hub: 'linear_attn.in_proj_b', gguf: 'ssm_beta' },
  deltaDecay: { hub: 'linear_attn.in_proj_a', gguf: 'ssm_alpha' },
  deltaBetaDecay: { hub: 'linear_attn.in_proj_ba', gguf: 'ssm_ba' },
  deltaConvolution: { hub: 'linear_attn.conv1d', gguf: 'ssm_conv1d' },
  deltaDecayBias: { hub: { bias: 'linear_attn.dt_bias' }, gguf: 'ssm_dt' },
  deltaRate: { hub: { weight: 'linear_attn.A_log' }, gguf: { weight: 'ssm_a' } },
  deltaNorm: { hub: 'linear_attn.norm', gguf: 'ssm_norm' },
  deltaOutput: { hub: 'linear_attn.out_proj', gguf: 'ssm_out' },
};

type Role = keyof typeof names;

export function gatedDeltaNet(layer: LayerBuilder, options: GatedDeltaNetOptions): GatedDeltaNetSpec {
  const { hiddenSize } = layer.sizes;
  const { keyHeads, keySize, valueHeads, valueSize, length, sharing } = options;
  // Its norm is stored as it is, whatever the others have added.
  const leaves = layer.leaves(names, { ...layer.shared.normOptions, offset: 0 });
  const channels = 2 * keyHeads * keySize + valueHeads * valueSize;
  const convolution = convolutionSpec(leaves, 'deltaConvolution', channels, { length });
  return {
    kind: 'gated-delta-net',
    state: layer.addRecurrentState(recurrentState(convolution, valueHeads * keySize * valueSize)),
    keyHeads,
    keySize,
    valueHeads,
    valueSize,
    sharing,
    ...largeProjections(leaves, hiddenSize, options),
    ...smallProjections(leaves, hiddenSize, options),
    convolution,
    decayBias: leaves.biasVector('deltaDecayBias', valueHeads),
    decayRate: rateSpec(leaves.names.weight('deltaRate'), valueHeads, options.logarithmicRates),
    norm: leaves.norm('deltaNorm', valueSize),
    output: leaves.linear('deltaOutput', { rows: hiddenSize, columns: valueHeads * valueSize }),
  };
}

type Linears<Names extends string> = Readonly<Record<Names, LinearSpec>>;

/** By themselves, or in one tensor for each key head: its query, its key, the values and gates of its value heads. */
function largeProjections(
  leaves: Leaves<Role>,
  columns: number,
  { keyHeads, keySize, valueHeads, valueSize, largeByKeyHead }: GatedDeltaNetOptions,
): Linears<'query' | 'key' | 'value' | 'gate'> {
  const keyRows = keyHeads * keySize;
  const valueRows = valueHeads * valueSize;
  const linear = (role: Role, rows: number, firstRow: number, runs?: Pick<RowSlice, 'runs'>) =>
    leaves.linear(role, { rows, firstRow, columns, ...runs });
  if (!largeByKeyHead) {
    return {
      query: linear('deltaQueryKeyValue', keyRows, 0),
      key: linear('deltaQueryKeyValue', keyRows, keyRows),
      value: linear('deltaQueryKeyValue', valueRows, 2 * keyRows),
      gate: linear('deltaGate', valueRows, 0),
    };
  }
  const values = valueRows / keyHeads;
  const every = 2 * keySize + 2 * values;
  const within = (rows: number, at: number) =>
    linear('deltaQueryKeyValueGate', rows, at, { runs: { rows: rows / keyHeads, every } });
  return {
    query: within(keyRows, 0),
    key: within(keyRows, keySize),
    value: within(valueRows, 2 * keySize),
    gate: within(valueRows, 2 * keySize + values),
  };
}

function smallProjections(
  leaves: Leaves<Role>,
  columns: number,
  { keyHeads, valueHeads, smallByKeyHead }: GatedDeltaNetOptions,
): Linears<'share' | 'decay'> {
  const common = { rows: valueHeads, columns };
  if (!smallByKeyHead) {
    return { share: leaves.linear('deltaBeta', common), decay: leaves.linear('deltaDecay', common) };
  }
  const rows = valueHeads / keyHeads;
  const runs = { rows, every: 2 * rows };
  return {
    share: leaves.linear('deltaBetaDecay', { ...common, runs }),
    decay: leaves.linear('deltaBetaDecay', { ...common, runs, firstRow: rows }),
  };
}
