// BERT and its like (BGE, E5, GTE, MiniLM): learnt positions, biases everywhere, and norms over the residual stream, of which
// the last layer's is the last.

import { configError, fieldOf, optionalCount, optionalSize, size } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { streamNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import type { ModelSpec } from '../spec.ts';
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
  build: (source) => bertSpec(source, 0),
};

/** RoBERTa and XLM-RoBERTa (BGE-M3, multilingual E5, BGE-Reranker v2): the first rows of positions belong to padding. */
export const xlmRoberta: Architecture = {
  name: 'xlm-roberta',
  modelTypes: ['xlm-roberta', 'roberta'],
  ggufNames: [],
  defaults: {
    ...bert.defaults,
    vocab_size: 250_002,
    max_position_embeddings: 514,
    type_vocab_size: 1,
    layer_norm_eps: 1e-5,
    pad_token_id: 1,
  },
  build: (source) => bertSpec(source, (optionalCount(source.config, 'pad_token_id') ?? 1) + 1),
};

/** `firstPosition`: rows of positions that no text has. */
function bertSpec(source: ModelSource, firstPosition: number): ModelSpec {
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
    positionRows: size(config, 'max_position_embeddings') - firstPosition,
    firstPosition,
    layers: (layer) =>
      streamNorm(
        layer,
        attention(layer, { bidirectional: true, queryKeyValueBias: true, outputBias: true }),
        mlp(layer, { activation, bias: true, ungated: true }),
      ),
  });
}
