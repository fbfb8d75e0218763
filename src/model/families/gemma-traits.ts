// What all models of Gemma share: norms around each branch whose weights lie around zero, scaled embeddings, soft caps.

import { activationOf, type ModelSource, type Traits } from '../architecture.ts';
import { optionalPositive } from '../config.ts';
import { sandwichNorms } from '../tensor-names.ts';

export function gemmaTraits(source: ModelSource): Omit<Traits, 'ropes' | 'layers' | 'attentionScale'> {
  const { config, sizes, naming } = source;
  return {
    activation: activationOf(config, 'hidden_activation', 'gelu-tanh'),
    attentionSoftcap: optionalPositive(config, 'attn_logit_softcapping'),
    logitSoftcap: optionalPositive(config, 'final_logit_softcapping'),
    embeddingScale: Math.sqrt(sizes.hiddenSize),
    // GGUF files store norm weights with 1 already added.
    normOffset: naming === 'gguf' ? 0 : 1,
    norms: 'around',
    names: { 'hugging-face': sandwichNorms },
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
