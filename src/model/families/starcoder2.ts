// StarCoder 2: layer norms and biases everywhere, and a feed-forward without a gate.

import { activationOf, biasesOf, windowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';

export const starcoder2: Architecture = {
  name: 'starcoder2',
  modelTypes: ['starcoder2'],
  ggufNames: ['starcoder2'],
  defaults: {
    num_key_value_heads: 2,
    max_position_embeddings: 4096,
    norm_epsilon: 1e-5,
    use_bias: true,
    tie_word_embeddings: true,
  },
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source, {
      names: { hub: { up: 'mlp.c_fc', down: 'mlp.c_proj' } },
      norms: { kind: 'layer', bias: true },
    });
    const rope = model.rope(ropeOf(config, sizes));
    const window = windowOf(config);
    const activation = activationOf(config, 'gelu-tanh');
    const biases = biasesOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, window, ...biases.attention }),
          mlp(layer, { activation, ungated: true, ...biases.mlp }),
        ),
    });
  },
};
