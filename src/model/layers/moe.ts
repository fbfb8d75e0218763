// Mixture of experts (MoE) of one layer, and the expert that all rows share.

import { rowsOf } from '../../weights/weight-source.ts';
import { configError } from '../config.ts';
import { defined, type LayerBuilder, type Leaves } from '../layer-builder.ts';
import type { LinearSpec, NormSpec, VectorSpec } from '../leaves.ts';
import type { ExpertLayout } from '../tensor-names.ts';
import { type Activation, type MlpOptions, type MlpSpec, mlp } from './mlp.ts';

/** How rows choose their experts, and how much each counts. */
export interface RouterSpec {
  readonly linear: LinearSpec;
  readonly score: 'softmax' | 'sigmoid';
  readonly used: number;
  /** Added to scores for the choice alone. */
  readonly routingBias?: VectorSpec;
  /** Only the best groups of experts take part: by their best score, or the sum of their best two. */
  readonly groups?: { readonly count: number; readonly used: number; readonly by: 'best' | 'best-two' };
  /** The scores of chosen experts are divided by their sum. */
  readonly normalized: boolean;
  /** Factor on what experts give. */
  readonly scale: number;
  readonly expertScales?: VectorSpec;
  /** Rows as the router sees them, where that is not what experts see; always of the residual stream. */
  readonly norm?: NormSpec;
}

export interface MoeSpec {
  readonly kind: 'moe';
  readonly router: RouterSpec;
  readonly experts: readonly MlpSpec[];
  /** Scores are factors on what experts read, not on what they give. */
  readonly scalesInput?: true;
}

export interface MoeOptions {
  readonly count: number;
  /** The field of the configuration that says it, for errors. */
  readonly countField: string;
  readonly size: number;
  readonly router: Omit<RouterSpec, 'linear' | 'routingBias' | 'expertScales' | 'norm'>;
  /** The router has a norm of its own over the residual stream, with a factor on its weights. */
  readonly routerNorm?: { readonly factor: number };
  readonly expertScales?: boolean;
  readonly routerBias?: boolean;
  /** In some families mlx-lm leaves it out of its folders, and computes without it. */
  readonly routingBias?: boolean | 'not-in-mlx';
  readonly biases?: boolean;
  /** Where gates and ups share a tensor: rows by turns, not all gates of an expert first. */
  readonly alternatingGateUp?: boolean;
  /** Tensors of all experts hold each matrix with its inputs as rows. */
  readonly transposed?: boolean;
  readonly scalesInput?: boolean;
  /** A feed-forward for every row; its output may be gated. */
  readonly shared?: { readonly size: number; readonly gated: boolean; readonly fused?: boolean } | undefined;
  readonly isSparse: (layer: number) => boolean;
}

/** Tensors of all experts have no endings. */
const biased = (weight: string) => ({ weight, bias: `${weight}_bias` });

const names = {
  router: { hub: 'mlp.gate', gguf: 'ffn_gate_inp' },
  routingBias: { hub: { bias: 'mlp.gate.e_score_correction_bias' }, gguf: 'exp_probs_b' },
  routerNorm: { hub: { weight: 'router.scale' }, gguf: { weight: 'ffn_gate_inp.scale' } },
  expertScales: { hub: { weight: 'router.per_expert_scale' }, gguf: { weight: 'ffn_down_exps.scale' } },
  expertGates: { hub: biased('mlp.experts.gate_proj'), gguf: 'ffn_gate_exps' },
  expertUps: { hub: biased('mlp.experts.up_proj'), gguf: 'ffn_up_exps' },
  expertGateUps: { hub: biased('mlp.experts.gate_up_proj'), gguf: 'ffn_gate_up_exps' },
  expertDowns: { hub: biased('mlp.experts.down_proj'), gguf: 'ffn_down_exps' },
  expertGate: { hub: 'mlp.experts.*.gate_proj', gguf: 'ffn_gate.*' },
  expertUp: { hub: 'mlp.experts.*.up_proj', gguf: 'ffn_up.*' },
  expertDown: { hub: 'mlp.experts.*.down_proj', gguf: 'ffn_down.*' },
  sharedGate: { hub: 'mlp.shared_expert.gate_proj', gguf: 'ffn_gate_shexp' },
  sharedUp: { hub: 'mlp.shared_expert.up_proj', gguf: 'ffn_up_shexp' },
  sharedDown: { hub: 'mlp.shared_expert.down_proj', gguf: 'ffn_down_shexp' },
  sharedGateUp: {},
  sharedExpertGate: { hub: 'mlp.shared_expert_gate', gguf: 'ffn_gate_inp_shexp' },
  switchGates: { mlx: 'mlp.switch_mlp.gate_proj' },
  switchUps: { mlx: 'mlp.switch_mlp.up_proj' },
  switchDowns: { mlx: 'mlp.switch_mlp.down_proj' },
};

type Role = keyof typeof names;

/** Experts, and the shared one, in the layers that have them; one feed-forward in the others. */
export function mlpOrMoe(
  layer: LayerBuilder,
  dense: MlpOptions,
  options: MoeOptions | undefined,
): readonly (MlpSpec | MoeSpec)[] {
  if (!options?.isSparse(layer.index)) return [mlp(layer, dense)];
  const { activation } = dense;
  return [moe(layer, activation, options), ...sharedExpert(layer, activation, options)];
}

export function moe(layer: LayerBuilder, activation: Activation, options: MoeOptions): MoeSpec {
  const leaves = layer.leaves(names);
  const { count, size, scalesInput } = options;
  const linear = leaves.linear('router', {
    rows: count,
    columns: layer.sizes.hiddenSize,
    bias: options.routerBias,
  });
  refuseOtherCount(layer, linear, options);
  const layout = layer.shared.source.published?.expertLayout ?? storedLayout(leaves);
  return defined({
    kind: 'moe',
    router: { linear, ...routerExtras(layer, leaves, options), ...options.router },
    experts: Array.from({ length: count }, (_, expert) => ({
      kind: 'mlp' as const,
      size,
      activation,
      ...expertLinears(leaves, layer.sizes.hiddenSize, options, layout, expert),
    })),
    scalesInput: scalesInput || undefined,
  });
}

/** Before anything is made for each expert: a row of the router stands for each. */
function refuseOtherCount(
  { shared }: LayerBuilder,
  { weight }: LinearSpec,
  { count, countField }: MoeOptions,
): void {
  const router = shared.source.opened.weights.tensors.get(weight.tensor);
  if (router === undefined || rowsOf(router) === count) return;
  throw configError(
    shared.source.config,
    countField,
    `claims ${count} experts, but the file's router chooses among ${rowsOf(router)}`,
    'The configuration and the weights do not belong together; download both again.',
  );
}

function routerExtras(
  { shared, sizes }: LayerBuilder,
  leaves: Leaves<Role>,
  { count, expertScales, routerNorm, routingBias }: MoeOptions,
): Pick<RouterSpec, 'routingBias' | 'expertScales' | 'norm'> {
  const bias = leaves.biasVector('routingBias', count);
  const isLeftOut =
    routingBias === 'not-in-mlx' &&
    leaves.names.has('switchDowns') &&
    !shared.source.opened.weights.tensors.has(bias.tensor);
  const { hiddenSize: size } = sizes;
  const norm: NormSpec = { leaf: 'norm', kind: 'rms', size, weight: leaves.names.weight('routerNorm') };
  return defined({
    routingBias: routingBias && !isLeftOut ? bias : undefined,
    expertScales: expertScales ? leaves.vector('expertScales', count) : undefined,
    norm: routerNorm && { ...norm, ...routerNorm },
  });
}

function sharedExpert(layer: LayerBuilder, activation: Activation, { shared }: MoeOptions): MlpSpec[] {
  if (shared === undefined) return [];
  const leaves = layer.leaves(names);
  const { hiddenSize: columns } = layer.sizes;
  const { size, fused, gated } = shared;
  const inner = { rows: size, columns };
  return [
    defined({
      kind: 'mlp',
      size,
      activation,
      gate: leaves.linear(fused ? 'sharedGateUp' : 'sharedGate', inner),
      up: leaves.linear(fused ? 'sharedGateUp' : 'sharedUp', { ...inner, firstRow: fused ? size : 0 }),
      down: leaves.linear('sharedDown', { rows: columns, columns: size }),
      share: gated ? leaves.linear('sharedExpertGate', { rows: 1, columns }) : undefined,
    }),
  ];
}

function storedLayout({ names }: Leaves<Role>): ExpertLayout {
  if (names.has('expertDown', 0)) return 'each';
  if (names.has('switchDowns')) return 'switch';
  return names.has('expertGateUps') ? 'stacked with gates and ups in one' : 'stacked';
}

/** Experts have tensors of their own, or share one as mlx-lm or as the hub stores them, which may join gates and ups. */
function expertLinears(
  leaves: Leaves<Role>,
  hiddenSize: number,
  { size, biases: bias, transposed, alternatingGateUp }: MoeOptions,
  layout: ExpertLayout,
  expert: number,
): Readonly<Record<'gate' | 'up' | 'down', LinearSpec>> {
  const inner = { rows: size, columns: hiddenSize, bias };
  const outer = { rows: hiddenSize, columns: size, bias };
  if (layout === 'each') {
    return {
      gate: leaves.linear('expertGate', { ...inner, number: expert }),
      up: leaves.linear('expertUp', { ...inner, number: expert }),
      down: leaves.linear('expertDown', { ...outer, number: expert }),
    };
  }
  const gatesAndUps = { ...inner, firstRow: expert * size };
  const downs = { ...outer, firstRow: expert * hiddenSize };
  if (layout === 'switch') {
    return {
      gate: leaves.linear('switchGates', gatesAndUps),
      up: leaves.linear('switchUps', gatesAndUps),
      down: leaves.linear('switchDowns', downs),
    };
  }
  const turned = (rows: number) => (transposed ? { transposed: { rows } } : {});
  const down = leaves.linear('expertDowns', { ...downs, ...turned(hiddenSize) });
  if (layout === 'stacked') {
    return {
      gate: leaves.linear('expertGates', { ...gatesAndUps, ...turned(size) }),
      up: leaves.linear('expertUps', { ...gatesAndUps, ...turned(size) }),
      down,
    };
  }
  const firstRow = expert * 2 * size;
  const both = {
    ...inner,
    ...turned(2 * size),
    ...(alternatingGateUp ? { runs: { rows: 1, every: 2 } } : {}),
  };
  return {
    gate: leaves.linear('expertGateUps', { ...both, firstRow }),
    up: leaves.linear('expertGateUps', { ...both, firstRow: firstRow + (alternatingGateUp ? 1 : size) }),
    down,
  };
}
