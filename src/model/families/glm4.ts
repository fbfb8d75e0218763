// GLM-4: norms around each branch, half of each head rotated in neighbouring pairs, gate and up in one tensor. The first
// generation (`glm`) has norms before branches alone.

import { fieldOf, optionalFlag } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { preNorm, sandwichNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { RoleNames } from '../tensor-names.ts';

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
    return model.spec({
      layers: (layer) =>
        shape(
          layer,
          attention(layer, { rope, interleaved: true, queryKeyValueBias }),
          mlp(layer, { activation, fused: true }),
        ),
    });
  },
};
