// BERT and its like (BGE, E5, GTE, MiniLM): learnt positions, biases everywhere, and norms over the residual stream, of which
// the last layer's is the last.

import { type Architecture, activationOf, type ModelSource, type Traits } from '../architecture.ts';
import { configError, fieldOf, optionalSize, size } from '../config.ts';
import type { RoleNames } from '../tensor-names.ts';

const names: RoleNames = {
  embedding: 'embeddings.word_embeddings',
  layers: 'encoder.layer',
  query: 'attention.self.query',
  key: 'attention.self.key',
  value: 'attention.self.value',
  output: 'attention.output.dense',
  attentionPostNorm: 'attention.output.LayerNorm',
  up: 'intermediate.dense',
  down: 'output.dense',
  ffnPostNorm: 'output.LayerNorm',
};

/** Norms as GGUF files name them. */
export const streamNorms: RoleNames = {
  attentionPostNorm: 'attn_output_norm',
  ffnPostNorm: 'layer_output_norm',
};

/** What is common to models whose layers end in norms over the residual stream. */
export function streamNormTraits({ config, sizes }: ModelSource) {
  return {
    bidirectional: true,
    attentionScale: sizes.headSize ** -0.5,
    norm: 'layer',
    normBias: true,
    norms: 'over-stream',
    embeddingNorm: true,
    noFinalNorm: true,
    textKindRows: optionalSize(config, 'type_vocab_size'),
  } satisfies Partial<Traits>;
}

export const bert: Architecture = {
  name: 'bert',
  modelTypes: ['bert'],
  ggufNames: ['bert'],
  defaults: {
    vocab_size: 30_522,
    num_attention_heads: 12,
    intermediate_size: 3072,
    max_position_embeddings: 512,
    type_vocab_size: 2,
    layer_norm_eps: 1e-12,
  },
  traits(source) {
    const { config, sizes } = source;
    const positions = fieldOf(config, 'position_embedding_type') ?? 'absolute';
    if (positions !== 'absolute') {
      throw configError(
        config,
        'position_embedding_type',
        `${JSON.stringify(positions)} is not supported`,
        'Use a model with absolute positions.',
      );
    }
    return {
      ...streamNormTraits(source),
      ropes: [],
      layers: Array.from({ length: sizes.layerCount }, () => ({})),
      activation: activationOf(config, 'hidden_act', 'gelu'),
      positionRows: size(config, 'max_position_embeddings'),
      queryKeyValueBias: true,
      outputBias: true,
      ffnBias: true,
      ungated: true,
      names: { 'hugging-face': names, gguf: streamNorms },
    };
  },
};
