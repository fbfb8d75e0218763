// Gemma 3 (text): norms before and after each branch, q/k norms, scaled embeddings, and local layers with a
// window and their own rotary base between the global ones. EmbeddingGemma is one whose tokens see both sides.

import { type Architecture, mixedLayers, windowOf } from '../architecture.ts';
import { optionalFlag } from '../config.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import { windowOnBothSides } from './both-sides.ts';
import { gemmaAttentionScale, gemmaTraits } from './gemma-traits.ts';

const GLOBAL = 0;
const LOCAL = 1;

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
  traits(source) {
    const { config, sizes } = source;
    const bidirectional = optionalFlag(config, 'use_bidirectional_attention') ?? false;
    const sliding = { rope: LOCAL, window: bidirectional ? windowOnBothSides(config) : windowOf(config) };
    return {
      ...gemmaTraits(source),
      bidirectional,
      ropes: [ropeOf(config, sizes, 'full_attention'), localRopeOf(config, sizes, 10_000)],
      layers: mixedLayers(source, 6, { sliding, full: { rope: GLOBAL } }),
      attentionScale: gemmaAttentionScale(source, 62),
      queryKeyNorm: 'head',
    };
  },
};

export const gemmaEmbedding: Architecture = {
  ...gemma3,
  name: 'gemma-embedding',
  modelTypes: [],
  ggufNames: ['gemma-embedding'],
  ggufDefaults: { use_bidirectional_attention: true },
};
