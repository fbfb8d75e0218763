// Mixtral: Mistral's shape with experts in place of one feed-forward. Its GGUF files say "llama".

import { type Architecture, activationOf, alikeLayers, windowOf } from '../architecture.ts';
import { expertTraits, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';

export const mixtralNames: FamilyNames = {
  'hugging-face': {
    router: 'block_sparse_moe.gate',
    expertGate: 'block_sparse_moe.experts.*.w1',
    expertUp: 'block_sparse_moe.experts.*.w3',
    expertDown: 'block_sparse_moe.experts.*.w2',
  },
  mlx: switchNames('block_sparse_moe.switch_mlp'),
};

export const mixtral: Architecture = {
  name: 'mixtral',
  modelTypes: ['mixtral'],
  ggufNames: [],
  defaults: {
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 1_000_000,
    num_local_experts: 8,
    num_experts_per_tok: 2,
  },
  traits(source) {
    const { config, sizes, naming } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      layers: withExperts(source, alikeLayers(sizes, windowOf(config))),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      experts: expertTraits(source, { score: 'softmax', normalized: true }),
      interleavedPairs: naming === 'gguf',
      names: mixtralNames,
    };
  },
};
