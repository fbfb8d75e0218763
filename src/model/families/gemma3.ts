// Gemma 3 (text): norms before and after each branch, q/k norms, scaled embeddings, and local layers with a
// window and their own rotary base between the global ones. EmbeddingGemma is a bidirectional one.

import { optionalFlag } from '../config.ts';
import { bidirectionalWindowOf, periodicSlidingLayers, windowOf } from '../layer-config.ts';
import { sandwichNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import { gemmaAttentionScale, gemmaBuilder, gemmaOptions } from './gemma2.ts';

export const gemma3: Architecture = {
  name: 'gemma3',
  modelTypes: ['gemma3_text', 'gemma3'],
  ggufNames: ['gemma3'],
  defaults: {
    vocab_size: 262_208,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    rope_theta: 1_000_000,
    query_pre_attn_scalar: 256,
    sliding_window: 4096,
    tie_word_embeddings: true,
  },
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source, gemmaBuilder(source));
    const bidirectional = optionalFlag(config, 'use_bidirectional_attention') ?? false;
    const window = bidirectional ? bidirectionalWindowOf(config) : windowOf(config);
    const { activation, softcap, ...outer } = gemmaOptions(source);
    const rope = model.rope(ropeOf(config, sizes, 'full_attention'));
    const localRope = model.rope(localRopeOf(config, sizes, 10_000));
    const slides = periodicSlidingLayers(source, 6);
    const scale = gemmaAttentionScale(source, 62);
    return model.spec({
      ...outer,
      layers: (layer) =>
        sandwichNorm(
          layer,
          attention(layer, {
            ...(slides[layer.index] ? { rope: localRope, window } : { rope }),
            bidirectional,
            imagesBothWays: !bidirectional,
            scale,
            softcap,
            queryKeyNorm: 'head',
          }),
          mlp(layer, { activation }),
        ),
    });
  },
};

export const gemmaEmbedding: Architecture = {
  ...gemma3,
  name: 'gemma-embedding',
  modelTypes: [],
  ggufNames: ['gemma-embedding'],
  ggufDefaults: { use_bidirectional_attention: true },
};
