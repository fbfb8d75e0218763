// DeepSeek 2 and 3 and what shares their shape (Kimi K2, GLM-4.7-Flash): MLA, experts in groups, shared
// experts.

import { configError, fieldOf, optionalCount, optionalFlag, size } from '../config.ts';
import type { LayerBuilder } from '../layer-builder.ts';
import { activationOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { mla } from '../layers/mla.ts';
import { type MoeOptions, mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import { ropeOf, yarnAttentionScale } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';
import { sharedExpertsNames } from '../tensor-names.ts';

const mlaSizes = { kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128 };

export const deepseek2: Architecture = {
  name: 'deepseek2',
  modelTypes: ['deepseek_v2'],
  ggufNames: ['deepseek2'],
  defaults: {
    ...mlaSizes,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    q_lora_rank: 1536,
    n_routed_experts: 64,
    n_shared_experts: 2,
    moe_intermediate_size: 1407,
    scoring_func: 'softmax',
    topk_method: 'greedy',
  },
  build,
};

const defaults = {
  ...mlaSizes,
  max_position_embeddings: 4096,
  rms_norm_eps: 1e-6,
  q_lora_rank: 1536,
  n_routed_experts: 256,
  n_shared_experts: 1,
  moe_intermediate_size: 2048,
  num_experts_per_tok: 8,
  scoring_func: 'sigmoid',
  topk_method: 'noaux_tc',
  norm_topk_prob: true,
  n_group: 8,
  topk_group: 4,
  routed_scaling_factor: 2.5,
};

export const deepseek3: Architecture = {
  name: 'deepseek3',
  modelTypes: ['deepseek_v3', 'kimi_k2'],
  // GGUF files do not tell generations apart.
  ggufNames: [],
  defaults,
  build,
};

export const glm4MoeLite: Architecture = {
  name: 'glm4-moe-lite',
  modelTypes: ['glm4_moe_lite'],
  ggufNames: [],
  defaults: {
    ...defaults,
    max_position_embeddings: 202_752,
    rms_norm_eps: 1e-5,
    q_lora_rank: 768,
    qk_nope_head_dim: 192,
    v_head_dim: 256,
    n_routed_experts: 64,
    moe_intermediate_size: 1536,
    num_experts_per_tok: 4,
    n_group: 1,
    topk_group: 1,
    routed_scaling_factor: 1.8,
    first_k_dense_replace: 1,
  },
  build,
};

function build(source: ModelSource): ModelSpec {
  const { config, sizes } = source;
  const { qkNopeHeadDim, qkRopeHeadDim } = headSizes(source);
  const model = new ModelBuilder(source, { names: { hub: sharedExpertsNames } });
  const bias = optionalFlag(config, 'attention_bias') ?? false;
  const rope = model.rope(ropeOf(config, { ...sizes, headSize: qkRopeHeadDim }));
  const moe = hasExperts(config) ? expertsOf(source) : undefined;
  const activation = activationOf(config);
  const attention = {
    rope,
    scale: (qkNopeHeadDim + qkRopeHeadDim) ** -0.5 * yarnAttentionScale(config),
    // 0 stands for none.
    qLoraRank: optionalCount(config, 'q_lora_rank') || undefined,
    kvLoraRank: size(config, 'kv_lora_rank'),
    qkNopeHeadDim,
    qkRopeHeadDim,
    vHeadDim: size(config, 'v_head_dim'),
    bias,
    interleaved: optionalFlag(config, 'rope_interleave') ?? true,
  };
  const layerOf = (layer: LayerBuilder, skipsFirst = false) =>
    preNorm(layer, mla(layer, { ...attention, skipsFirst }), mlpOrMoe(layer, { activation }, moe));
  return model.spec({
    layers: (layer) => layerOf(layer),
    mtpLayer: (layer) => layerOf(layer, true),
    mtpPlace: 'last-layer',
  });
}

/** GGUF files give both parts of a head together. */
function headSizes({ config, opened }: ModelSource): {
  readonly qkNopeHeadDim: number;
  readonly qkRopeHeadDim: number;
} {
  if (opened.format !== 'gguf') {
    return {
      qkNopeHeadDim: size(config, 'qk_nope_head_dim'),
      qkRopeHeadDim: size(config, 'qk_rope_head_dim'),
    };
  }
  const whole = size(config, 'qk_head_dim');
  const qkRopeHeadDim = size(config, 'qk_rope_head_dim');
  if (qkRopeHeadDim < whole) return { qkNopeHeadDim: whole - qkRopeHeadDim, qkRopeHeadDim };
  throw configError(
    config,
    'qk_rope_head_dim',
    `rotates ${qkRopeHeadDim} of ${whole} values of a head, of which some must stay`,
  );
}

/** Experts that are scored by sigmoid have a routing bias, and groups are compared by their best two. */
function expertsOf(source: ModelSource): MoeOptions {
  const limited = fieldOf(source.config, 'topk_method') !== 'greedy';
  const moe = moeOptions(source, { score: 'softmax', normalized: false, groups: 'best-two' });
  const { groups, ...router } = moe.router;
  const sigmoid = router.score === 'sigmoid';
  if (groups === undefined || !limited) return { ...moe, router, routingBias: sigmoid };
  const by = sigmoid ? 'best-two' : 'best';
  return { ...moe, router: { ...router, groups: { ...groups, by } }, routingBias: sigmoid };
}
