// GLM-4.5 and later: experts chosen by sigmoid scores and a routing bias, with a shared expert.

import { optionalFlag } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import { sharedExpertsNames } from '../tensor-names.ts';

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
    const { config, sizes } = source;
    const model = new ModelBuilder(source, {
      names: { hub: sharedExpertsNames, gguf: { ffnNorm: 'post_attention_norm' } },
    });
    const rope = model.rope(ropeOf(config, sizes));
    const activation = activationOf(config);
    const queryKeyNorm = optionalFlag(config, 'use_qk_norm') ? 'head' : undefined;
    const queryKeyValueBias = optionalFlag(config, 'attention_bias') ?? false;
    const moe = moeOptions(source, { score: 'sigmoid', normalized: true, groups: 'best-two' });
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, queryKeyNorm, queryKeyValueBias }),
          mlpOrMoe(layer, { activation }, { ...moe, routingBias: true }),
        ),
    });
  },
};
