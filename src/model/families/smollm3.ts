// SmolLM 3: Llama's shape with some layers without positional encoding (NoPE).

import { activationOf, biasesOf, ropeLayers, slidingLayers, usedWindowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';

export const smollm3: Architecture = {
  name: 'smollm3',
  modelTypes: ['smollm3'],
  ggufNames: ['smollm3'],
  defaults: {
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    rope_theta: 2_000_000,
    tie_word_embeddings: true,
  },
  build(source) {
    const { config, sizes, naming } = source;
    const model = new ModelBuilder(source);
    const rope = model.rope(ropeOf(config, sizes));
    const window = usedWindowOf(config);
    const rotates = ropeLayers(source, 4);
    const slides = slidingLayers(source, (index) => rotates[index] === false);
    const activation = activationOf(config);
    const biases = biasesOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, {
            rope: rotates[layer.index] ? rope : undefined,
            window: slides[layer.index] ? window : undefined,
            interleaved: naming === 'gguf',
            ...biases.attention,
          }),
          mlp(layer, { activation, ...biases.mlp }),
        ),
    });
  },
};
