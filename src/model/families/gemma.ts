// Gemma (the first) and the text models of PaliGemma, whose prompts see themselves both ways.

import { optionalFlag } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { ropeOf } from '../rope-parameters.ts';

export const gemma: Architecture = {
  name: 'gemma',
  modelTypes: ['gemma'],
  ggufNames: ['gemma'],
  defaults: {
    head_dim: 256,
    max_position_embeddings: 8192,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
  },
  build(source) {
    const { config, sizes, naming } = source;
    // Weights of norms are around zero; GGUF files store them with 1 already added.
    const model = new ModelBuilder(source, { norms: { offset: naming === 'gguf' ? 0 : 1 } });
    const rope = model.rope(ropeOf(config, sizes));
    // Early files say "gelu", and mean what `hidden_activation` says in later ones.
    const activation = activationOf(config, 'gelu-tanh', 'hidden_activation');
    const { prefixLm, imagesBothWays } = prefixOptions(source);
    return model.spec({
      prefixLm,
      embeddingScale: Math.sqrt(sizes.hiddenSize),
      layers: (layer) =>
        preNorm(layer, attention(layer, { rope, imagesBothWays }), mlp(layer, { activation })),
    });
  },
};

/** PaliGemma's text models are Gemma and Gemma 2. */
export function prefixOptions({ config }: ModelSource) {
  const isPrefixLm = optionalFlag(config, 'use_bidirectional_attention') ?? false;
  return { prefixLm: isPrefixLm || undefined, imagesBothWays: isPrefixLm };
}
