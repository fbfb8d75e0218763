// Gemma 2: norms before and after each branch, soft caps on attention and logits, a window over every other layer.

import { optionalPositive } from '../config.ts';
import { activationOf, periodicSlidingLayers, windowOf } from '../layer-config.ts';
import { sandwichNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { ropeOf } from '../rope-parameters.ts';
import { sandwichNorms } from '../tensor-names.ts';
import { prefixOptions } from './gemma.ts';

const caps = { attn_logit_softcapping: 50, final_logit_softcapping: 30, sliding_window: 4096 };

export const gemma2: Architecture = {
  name: 'gemma2',
  modelTypes: ['gemma2'],
  ggufNames: ['gemma2'],
  defaults: {
    ...caps,
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 8192,
    rms_norm_eps: 1e-6,
    query_pre_attn_scalar: 256,
    tie_word_embeddings: true,
  },
  ggufDefaults: caps,
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source, gemmaBuilder(source));
    const { activation, softcap, ...outer } = gemmaOptions(source);
    const rope = model.rope(ropeOf(config, sizes));
    const window = windowOf(config);
    const slides = periodicSlidingLayers(source, 2);
    const scale = gemmaAttentionScale(source, 46);
    const { prefixLm, imagesBothWays } = prefixOptions(source);
    return model.spec({
      ...outer,
      prefixLm,
      layers: (layer) =>
        sandwichNorm(
          layer,
          attention(layer, {
            rope,
            window: slides[layer.index] ? window : undefined,
            imagesBothWays,
            scale,
            softcap,
          }),
          mlp(layer, { activation }),
        ),
    });
  },
};

/** Norms of Gemma 2 and 3 have weights around zero; GGUF files store them with 1 already added. */
export function gemmaBuilder({ naming }: ModelSource) {
  return { names: { hub: sandwichNorms }, norms: { offset: naming === 'gguf' ? 0 : 1 } };
}

export function gemmaOptions({ config, sizes }: ModelSource) {
  return {
    activation: activationOf(config, 'gelu-tanh', 'hidden_activation'),
    softcap: optionalPositive(config, 'attn_logit_softcapping'),
    logitSoftcap: optionalPositive(config, 'final_logit_softcapping'),
    embeddingScale: Math.sqrt(sizes.hiddenSize),
  };
}

/**
 * GGUF files do not store the scalar: it is the head size, but for the largest model of a generation, which is known by
 * its layers.
 */
export function gemmaAttentionScale(source: ModelSource, largestLayerCount: number): number {
  const { config, sizes, naming } = source;
  const largest = naming === 'gguf' && sizes.layerCount === largestLayerCount;
  const usual = largest ? sizes.hiddenSize / sizes.headCount : sizes.headSize;
  return (optionalPositive(config, 'query_pre_attn_scalar') ?? usual) ** -0.5;
}
