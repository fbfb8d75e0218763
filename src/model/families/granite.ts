// Granite 3 and 4: Llama's shape with factors on embeddings, attention, branches and logits; also with experts, and as a
// hybrid.

import {
  type Architecture,
  activationOf,
  alikeLayers,
  biasesOf,
  type Mamba2Traits,
  type ModelSource,
  type Traits,
} from '../architecture.ts';
import {
  configError,
  fieldOf,
  optionalFlag,
  optionalPositive,
  optionalSize,
  optionalText,
  size,
} from '../config.ts';
import { expertTraits, hasExperts, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { type RoleNames, switchNames } from '../tensor-names.ts';
import { hybridLayers } from './hybrid-layers.ts';

const defaults = { rms_norm_eps: 1e-6, max_position_embeddings: 2048 };

export const granite: Architecture = {
  name: 'granite',
  modelTypes: ['granite'],
  ggufNames: ['granite'],
  defaults: { ...defaults, attention_multiplier: 1 },
  traits: graniteTraits,
};

const expertNames: RoleNames = {
  router: 'block_sparse_moe.router.layer',
  expertGateUps: 'block_sparse_moe.input_linear',
  expertDowns: 'block_sparse_moe.output_linear',
};

const mlxExpertNames = switchNames('block_sparse_moe.switch_mlp');

export const graniteMoe: Architecture = {
  name: 'granitemoe',
  modelTypes: ['granitemoe'],
  ggufNames: ['granitemoe'],
  defaults: { ...defaults, attention_multiplier: 1, num_local_experts: 8, num_experts_per_tok: 2 },
  traits(source) {
    const traits = graniteTraits(source);
    return {
      ...traits,
      layers: withExperts(source, traits.layers),
      experts: expertTraits(source, { score: 'softmax', normalized: true }),
      names: { 'hugging-face': expertNames, mlx: mlxExpertNames },
    };
  },
};

/** Beside experts, or in their place. */
const sharedNames: RoleNames = {
  gateUp: 'shared_mlp.input_linear',
  down: 'shared_mlp.output_linear',
  sharedGateUp: 'shared_mlp.input_linear',
  sharedDown: 'shared_mlp.output_linear',
};

/** Granite 4: most layers are state spaces, and a feed-forward stands beside the experts, or alone. */
export const graniteHybrid: Architecture = {
  name: 'granitehybrid',
  modelTypes: ['granitemoehybrid'],
  ggufNames: ['granitehybrid'],
  defaults: {
    ...defaults,
    attention_multiplier: 1,
    num_local_experts: 8,
    num_experts_per_tok: 2,
    shared_intermediate_size: 1024,
    mamba_n_heads: 128,
    mamba_n_groups: 1,
    mamba_d_conv: 4,
    mamba_d_state: 256,
    mamba_expand: 2,
  },
  traits(source) {
    const { config, naming } = source;
    const traits = graniteTraits(source);
    const attention = tellsPositions(source) ? { rope: 0 } : {};
    const layers = hybridLayers(source, { attention, other: { mixer: 'mamba2' } }, () => false);
    const sharedSize =
      optionalSize(config, 'shared_intermediate_size') ?? size(config, 'shared_expert_intermediate_size');
    const fused = naming !== 'gguf';
    const remembers = layers.some(({ mixer }) => mixer === 'mamba2');
    // Files of models that only attend may give sizes of state spaces that mean nothing.
    const common = { ...traits, layers, ...(remembers ? { mamba2: mamba2Traits(source) } : {}) };
    if (!hasExperts(config)) return { ...common, ...feedForwardAlone(source, sharedSize) };
    return {
      ...common,
      layers: withExperts(source, layers),
      experts: {
        ...expertTraits(source, { score: 'softmax', normalized: true }),
        shared: { size: sharedSize, gated: false, fused },
      },
      names: { 'hugging-face': { ...expertNames, ...sharedNames }, mlx: mlxExpertNames },
    };
  },
};

/** In place of experts. mlx-lm stores it under the usual names, gate and up apart. */
function feedForwardAlone({ naming, opened }: ModelSource, ffnSize: number): Partial<Traits> {
  const shared = `${sharedNames.gateUp}.weight`;
  const stores = () => [...opened.weights.tensors.keys()].some((name) => name.endsWith(shared));
  const fused = naming !== 'gguf' && (opened.format === 'gguf' || stores());
  return fused ? { ffnSize, fusedGateUp: true, names: { 'hugging-face': sharedNames } } : { ffnSize };
}

/** GGUF files say so in a place of their own. */
function tellsPositions({ config, opened }: ModelSource): boolean {
  if (opened.format === 'gguf') return optionalFlag(config, 'rope_is_used') ?? false;
  return optionalText(config, 'position_embedding_type') === 'rope';
}

function mamba2Traits(source: ModelSource): Mamba2Traits {
  const { config, opened } = source;
  const isGguf = opened.format === 'gguf';
  const heads = size(config, isGguf ? 'linear_num_value_heads' : 'mamba_n_heads');
  const groups = size(config, isGguf ? 'linear_num_key_heads' : 'mamba_n_groups');
  const headSize = isGguf ? size(config, 'linear_inner_size') / heads : mambaHeadSize(source, heads);
  if (!Number.isInteger(headSize) || heads % groups !== 0) {
    throw configError(
      config,
      isGguf ? 'linear_num_value_heads' : 'mamba_n_heads',
      `${heads} heads are neither alike nor in ${groups} groups alike`,
      'The file is damaged or was converted wrongly; download or convert it again.',
    );
  }
  return {
    heads,
    headSize,
    groups,
    stateSize: size(config, isGguf ? 'linear_key_head_dim' : 'mamba_d_state'),
    length: size(config, isGguf ? 'linear_conv_kernel_dim' : 'mamba_d_conv'),
    convolutionBias: optionalFlag(config, 'mamba_conv_bias') ?? true,
    projectionBias: optionalFlag(config, 'mamba_proj_bias') ?? false,
    logarithmicRates: !isGguf,
  };
}

/** It may be left to what the others leave. */
function mambaHeadSize({ config, sizes }: ModelSource, heads: number): number {
  const given = fieldOf(config, 'mamba_d_head') ?? 'auto';
  return given === 'auto'
    ? (size(config, 'mamba_expand') * sizes.hiddenSize) / heads
    : size(config, 'mamba_d_head');
}

function graniteTraits({ config, sizes, naming }: ModelSource): Traits {
  return {
    ropes: [ropeOf(config, sizes)],
    layers: alikeLayers(sizes),
    activation: activationOf(config, 'hidden_act', 'silu'),
    attentionScale: optionalPositive(config, 'attention_multiplier') ?? sizes.headSize ** -0.5,
    embeddingScale: optionalPositive(config, 'embedding_multiplier'),
    residualScale: optionalPositive(config, 'residual_multiplier'),
    logitScale: 1 / (optionalPositive(config, 'logits_scaling') ?? 1),
    ...biasesOf(config),
    interleavedPairs: naming === 'gguf',
  };
}
