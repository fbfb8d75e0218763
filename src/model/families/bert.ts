// BERT and its like (BGE, E5, GTE, MiniLM): learnt positions, biases everywhere, and norms over the residual stream, of which
// the last layer's is the last.

import { configError, fieldOf, optionalSize, size } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { streamNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
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

/** Layers end in norms of the residual stream. */
export function bertBuilder(source: ModelSource, hub: RoleNames): ModelBuilder {
  return new ModelBuilder(source, {
    names: { hub, gguf: { attentionPostNorm: 'attn_output_norm', ffnPostNorm: 'layer_output_norm' } },
    norms: { kind: 'layer', bias: true },
  });
}

export function bertOptions({ config }: ModelSource) {
  const textKindRows = optionalSize(config, 'type_vocab_size');
  return { embeddingNorm: true, finalNorm: false, textKindRows };
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
  build(source) {
    const { config } = source;
    const positions = fieldOf(config, 'position_embedding_type') ?? 'absolute';
    if (positions !== 'absolute') {
      throw configError(
        config,
        'position_embedding_type',
        `${JSON.stringify(positions)} is not supported`,
        'Use a model with absolute positions.',
      );
    }
    const model = bertBuilder(source, names);
    const activation = activationOf(config, 'gelu');
    return model.spec({
      ...bertOptions(source),
      positionRows: size(config, 'max_position_embeddings'),
      layers: (layer) =>
        streamNorm(
          layer,
          attention(layer, { bidirectional: true, queryKeyValueBias: true, outputBias: true }),
          mlp(layer, { activation, bias: true, ungated: true }),
        ),
    });
  },
};
