// GLM-4: norms around each branch, half of each head rotated in neighbouring pairs, gate and up in one tensor. The first
// generation (`glm`) has norms before branches alone.

import { fieldOf, optionalFlag } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { preNorm, sandwichNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { moeOptions } from '../moe-config.ts';
import { ropeOf, ropeParameters } from '../rope-parameters.ts';
import { type RoleNames, sharedExpertsNames } from '../tensor-names.ts';
import { llamaLike } from './llama.ts';

const names: RoleNames = {
  attentionPostNorm: 'post_self_attn_layernorm',
  ffnPostNorm: 'post_mlp_layernorm',
};

export const glm4: Architecture = {
  name: 'glm4',
  modelTypes: ['glm4', 'glm'],
  ggufNames: ['glm4'],
  defaults: {
    num_key_value_heads: 2,
    head_dim: 128,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1.5625e-7,
    partial_rotary_factor: 0.5,
    attention_bias: true,
  },
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source, { names: { hub: names } });
    const rope = model.rope(ropeOf(config, sizes));
    const activation = activationOf(config);
    const shape = fieldOf(config, 'model_type') === 'glm' ? preNorm : sandwichNorm;
    const queryKeyValueBias = optionalFlag(config, 'attention_bias') ?? false;
    // The converter to GGUF sorts rows anew for models that see images.
    const interleaved =
      source.naming !== 'gguf' || fieldOf(ropeParameters(config), 'mrope_section') === undefined;
    return model.spec({
      layers: (layer) =>
        shape(
          layer,
          attention(layer, { rope, interleaved, queryKeyValueBias }),
          mlp(layer, { activation, fused: true }),
        ),
    });
  },
};

const { head_dim: _, ...seeingDefaults } = glm4.defaults;

/** The one that sees images: heads share its width. */
export const glm4v: Architecture = {
  ...glm4,
  name: 'glm4v',
  modelTypes: ['glm4v', 'glm4v_text'],
  ggufNames: [],
  defaults: { ...seeingDefaults, rms_norm_eps: 1e-5 },
};

/** GLM-4.5 and later: experts chosen by sigmoid scores and a routing bias, with a shared expert. */
export const glm4Moe: Architecture = {
  name: 'glm4moe',
  modelTypes: ['glm4_moe'],
  ggufNames: ['glm4moe'],
  defaults: {
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    partial_rotary_factor: 0.5,
    moe_intermediate_size: 1408,
    n_routed_experts: 128,
    num_experts_per_tok: 8,
    n_shared_experts: 1,
    first_k_dense_replace: 1,
    n_group: 1,
    topk_group: 1,
  },
  ggufDefaults: { norm_topk_prob: false },
  build(source) {
    const { config } = source;
    const queryKeyNorm = optionalFlag(config, 'use_qk_norm') ? 'head' : undefined;
    const queryKeyValueBias = optionalFlag(config, 'attention_bias') ?? false;
    const moe = moeOptions(source, { score: 'sigmoid', normalized: true, groups: 'best-two' });
    return llamaLike(source, {
      names: { hub: sharedExpertsNames, gguf: { ffnNorm: 'post_attention_norm' } },
      attention: (rope) => ({ rope, queryKeyNorm, queryKeyValueBias }),
      moe: { ...moe, routingBias: true },
      mtpPlace: 'last-layer',
    });
  },
};
