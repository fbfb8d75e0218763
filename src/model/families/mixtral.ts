// Mixtral: Mistral's shape with experts in place of one feed-forward. Its GGUF files say "llama".

import { activationOf, windowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';

export const mixtralNames: FamilyNames = {
  hub: {
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
  build(source) {
    const { config, sizes, naming } = source;
    const model = new ModelBuilder(source, { names: mixtralNames });
    const rope = model.rope(ropeOf(config, sizes));
    const moe = moeOptions(source, { score: 'softmax', normalized: true });
    const window = windowOf(config);
    const activation = activationOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, window, interleaved: naming === 'gguf' }),
          mlpOrMoe(layer, { activation }, moe),
        ),
    });
  },
};
