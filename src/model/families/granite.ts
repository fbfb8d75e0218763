// Granite 3 and 4: Llama's shape with factors on embeddings, attention, branches and logits; also with experts, and as a
// hybrid.

import {
  configError,
  fieldOf,
  optionalFlag,
  optionalPositive,
  optionalSize,
  optionalText,
  size,
} from '../config.ts';
import { activationOf, attentionLayers, biasesOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { type Mamba2Options, mamba2 } from '../layers/mamba2.ts';
import type { MlpOptions } from '../layers/mlp.ts';
import { type MoeOptions, mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';
import { type FamilyNames, type RoleNames, switchNames } from '../tensor-names.ts';

const defaults = { rms_norm_eps: 1e-6, max_position_embeddings: 2048 };

export const granite: Architecture = {
  name: 'granite',
  modelTypes: ['granite'],
  ggufNames: ['granite'],
  defaults: { ...defaults, attention_multiplier: 1 },
  build: (source) => build(source, {}),
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
  build: (source) =>
    build(source, {
      names: { hub: expertNames, mlx: mlxExpertNames },
      moe: moeOptions(source),
    }),
};

/** Of the shared expert, or of the feed-forward where there are no others. */
const sharedNames: RoleNames = {
  gateUp: 'shared_mlp.input_linear',
  down: 'shared_mlp.output_linear',
  sharedGateUp: 'shared_mlp.input_linear',
  sharedDown: 'shared_mlp.output_linear',
};

/** Granite 4: most layers are Mamba 2, and a shared expert stands with others, or alone. */
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
  build(source) {
    const { config, naming } = source;
    const attends = attentionLayers(source, () => false);
    const sharedSize =
      optionalSize(config, 'shared_intermediate_size') ?? size(config, 'shared_expert_intermediate_size');
    // Files of models that only attend may give sizes of state spaces that mean nothing.
    const mamba = attends.every((one) => one) ? undefined : mamba2Options(source);
    const hybrid = { attends, mamba, nope: !hasRope(source) };
    if (!hasExperts(config)) return build(source, { ...hybrid, ...feedForwardAlone(source, sharedSize) });
    const moe = moeOptions(source);
    const shared = { size: sharedSize, gated: false, fused: naming !== 'gguf' };
    return build(source, {
      ...hybrid,
      moe: { ...moe, shared },
      names: { hub: { ...expertNames, ...sharedNames }, mlx: mlxExpertNames },
    });
  },
};

/** In place of experts. mlx-lm stores it under the usual names, gate and up apart. */
function feedForwardAlone({ naming, opened }: ModelSource, size: number): GraniteOptions {
  const shared = `${sharedNames.gateUp}.weight`;
  const stores = () => [...opened.weights.tensors.keys()].some((name) => name.endsWith(shared));
  const fused = naming !== 'gguf' && (opened.format === 'gguf' || stores());
  return fused ? { dense: { size, fused }, names: { hub: sharedNames } } : { dense: { size } };
}

/** GGUF files say so in a place of their own. */
function hasRope({ config, opened }: ModelSource): boolean {
  if (opened.format === 'gguf') return optionalFlag(config, 'rope_is_used') ?? false;
  return optionalText(config, 'position_embedding_type') === 'rope';
}

function mamba2Options(source: ModelSource): Mamba2Options {
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

interface GraniteOptions {
  readonly names?: FamilyNames;
  readonly dense?: Omit<MlpOptions, 'activation'>;
  readonly moe?: MoeOptions;
  readonly attends?: readonly boolean[];
  readonly mamba?: Mamba2Options | undefined;
  readonly nope?: boolean;
}

function build(source: ModelSource, options: GraniteOptions): ModelSpec {
  const { config, sizes, naming } = source;
  const { names = {}, dense, moe, attends, mamba, nope } = options;
  const model = new ModelBuilder(source, { names });
  const rope = model.rope(ropeOf(config, sizes));
  const activation = activationOf(config);
  const scale = optionalPositive(config, 'attention_multiplier') ?? sizes.headSize ** -0.5;
  const embeddingScale = optionalPositive(config, 'embedding_multiplier');
  const residualScale = optionalPositive(config, 'residual_multiplier');
  const logitScale = 1 / (optionalPositive(config, 'logits_scaling') ?? 1);
  const biases = biasesOf(config);
  const attending = {
    rope: nope ? undefined : rope,
    scale,
    interleaved: naming === 'gguf',
    ...biases.attention,
  };
  return model.spec({
    embeddingScale,
    logitScale,
    layers: (layer) =>
      preNorm(
        layer,
        mamba && !attends?.[layer.index] ? mamba2(layer, mamba) : attention(layer, attending),
        mlpOrMoe(layer, { activation, ...dense, ...biases.mlp }, moe),
        residualScale,
      ),
  });
}
