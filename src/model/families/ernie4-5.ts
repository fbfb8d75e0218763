// ERNIE 4.5: Llama's shape with heads rotated in neighbouring pairs; also with experts.

import {
  type Architecture,
  activationOf,
  alikeLayers,
  biasesOf,
  type ModelSource,
  type Traits,
} from '../architecture.ts';
import { expertTraits, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { sharedExpertsNames } from '../tensor-names.ts';

const defaults = {
  max_position_embeddings: 131_072,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
  tie_word_embeddings: true,
};

export const ernie45: Architecture = {
  name: 'ernie4_5',
  modelTypes: ['ernie4_5'],
  ggufNames: ['ernie4_5'],
  defaults: { ...defaults, num_key_value_heads: 2, head_dim: 128 },
  traits: ernieTraits,
};

export const ernie45Moe: Architecture = {
  name: 'ernie4_5-moe',
  modelTypes: ['ernie4_5_moe'],
  ggufNames: ['ernie4_5-moe'],
  defaults: {
    ...defaults,
    num_key_value_heads: 4,
    moe_intermediate_size: 1536,
    moe_num_experts: 64,
    moe_k: 6,
    moe_num_shared_experts: 2,
    moe_layer_start_index: 1,
  },
  traits(source) {
    const traits = ernieTraits(source);
    return {
      ...traits,
      layers: withExperts(source, traits.layers),
      experts: {
        ...expertTraits(source, { score: 'softmax', normalized: true }),
        routingBias: 'not-in-mlx',
      },
      names: {
        'hugging-face': {
          ...sharedExpertsNames,
          routingBias: { weight: '', bias: 'mlp.moe_statics.e_score_correction_bias' },
        },
      },
    };
  },
};

function ernieTraits({ config, sizes }: ModelSource): Traits {
  return {
    ropes: [ropeOf(config, sizes)],
    layers: alikeLayers(sizes),
    activation: activationOf(config, 'hidden_act', 'silu'),
    attentionScale: sizes.headSize ** -0.5,
    ...biasesOf(config),
    interleavedPairs: true,
  };
}
