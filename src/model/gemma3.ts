// Gemma 3 (text): norms before and after each branch, q/k norms, scaled embeddings, and local layers with a
// window and their own rotary base between the global ones.

import {
  type Architecture,
  activationOf,
  type ModelSource,
  slidingLayers,
  windowOf,
} from './architecture.ts';
import { fieldOf, isRecord, optionalPositive, optionalSize } from './config.ts';
import { ropeOf } from './rope-parameters.ts';
import type { RopeSpec } from './spec.ts';
import { sandwichNorms } from './tensor-names.ts';

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
    const { config, sizes, naming } = source;
    // Every sixth layer sees all tokens, unless the file says otherwise.
    const period =
      optionalSize(config, 'sliding_window_pattern') ?? optionalSize(config, '_sliding_window_pattern') ?? 6;
    const sliding = slidingLayers(source, (index) => (index + 1) % period !== 0);
    const window = windowOf(config);
    return {
      ropes: [ropeOf(config, sizes, 'full_attention'), localRope(source)],
      layers: sliding.map((slides) => (slides ? { rope: LOCAL, window } : { rope: GLOBAL })),
      activation: activationOf(config, 'hidden_activation', 'gelu-tanh'),
      attentionScale: queryScalar(source) ** -0.5,
      attentionSoftcap: optionalPositive(config, 'attn_logit_softcapping'),
      logitSoftcap: optionalPositive(config, 'final_logit_softcapping'),
      embeddingScale: Math.sqrt(sizes.hiddenSize),
      // GGUF files store norm weights with 1 already added.
      normOffset: naming === 'gguf' ? 0 : 1,
      queryKeyNorm: 'head',
      norms: 'around',
      names: { 'hugging-face': sandwichNorms },
    };
  },
};

/** Local layers are never stretched; older files give their base apart. */
function localRope({ config, sizes }: ModelSource): RopeSpec {
  if (isRecord(fieldOf(config, 'rope_parameters'))) return ropeOf(config, sizes, 'sliding_attention');
  const local = fieldOf(config, 'rope_local_base_freq') ?? 10_000;
  return ropeOf({ ...config, fields: { rope_theta: local } }, sizes);
}

// GGUF files do not store the scalar: it is the head size, but for the largest model, the one of 62 layers.
const LARGEST_LAYER_COUNT = 62;

function queryScalar({ config, sizes, naming }: ModelSource): number {
  const given = optionalPositive(config, 'query_pre_attn_scalar');
  if (given !== undefined) return given;
  const largest = naming === 'gguf' && sizes.layerCount === LARGEST_LAYER_COUNT;
  return largest ? sizes.hiddenSize / sizes.headCount : sizes.headSize;
}
