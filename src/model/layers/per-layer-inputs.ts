// Per-layer embeddings (Gemma 3n and 4): what makes them for all layers, and the part of a layer that takes its own.

import { type LayerBuilder, modelLeaves, type SharedParts } from '../layer-builder.ts';
import type { LinearSpec, NormSpec, TableSpec } from '../leaves.ts';
import type { Activation } from './mlp.ts';

/**
 * Inputs of single layers, `count` runs of `size` values a token: the token's row of a table, and after a norm over each
 * run a linear map of its embedding as it enters the first layer.
 */
export interface PerLayerInputsSpec {
  readonly count: number;
  readonly size: number;
  /** Tokens beyond its rows have the first one; rows of images that of a token, the first one where absent. */
  readonly table: TableSpec;
  readonly imageToken?: number;
  readonly tableScale: number;
  readonly projection: LinearSpec;
  readonly projectionScale: number;
  readonly norm: NormSpec;
}

/** `output(activation(gate(x)) * input)`, with the token's own input to this layer. */
export interface PerLayerInputSpec {
  readonly kind: 'per-layer-input';
  readonly index: number;
  readonly activation: Activation;
  readonly gate: LinearSpec;
  readonly output: LinearSpec;
}

interface PerLayerInputsOptions {
  readonly size: number;
  /** Tokens that have one of their own; all where absent. */
  readonly rows?: number | undefined;
}

const modelNames = {
  perLayerInputTable: { hub: 'embed_tokens_per_layer', gguf: 'per_layer_token_embd' },
  perLayerInputProjection: { hub: 'per_layer_model_projection', gguf: 'per_layer_model_proj' },
  perLayerInputNorm: { hub: 'per_layer_projection_norm', gguf: 'per_layer_proj_norm' },
};

export function perLayerInputs(
  model: SharedParts,
  { size, rows }: PerLayerInputsOptions,
): PerLayerInputsSpec {
  const { hiddenSize, vocabSize, layerCount: count } = model.source.sizes;
  const leaves = modelLeaves(model, modelNames);
  // Both parts are added, and halved in their squares.
  const half = Math.SQRT1_2;
  return {
    count,
    size,
    table: leaves.table('perLayerInputTable', rows ?? vocabSize, count * size),
    tableScale: Math.sqrt(size) * half,
    projection: leaves.linear('perLayerInputProjection', { rows: count * size, columns: hiddenSize }),
    projectionScale: hiddenSize ** -0.5,
    norm: { ...leaves.norm('perLayerInputNorm', size), factor: half },
  };
}

const names = {
  perLayerInputGate: { hub: 'per_layer_input_gate', gguf: 'inp_gate' },
  perLayerInputOutput: { hub: 'per_layer_projection', gguf: 'proj' },
  perLayerInputPostNorm: { hub: 'post_per_layer_input_norm', gguf: 'post_norm' },
};

export function perLayerInputPart(
  layer: LayerBuilder,
  { size, activation }: { readonly size: number; readonly activation: Activation },
): { readonly body: PerLayerInputSpec; readonly output: NormSpec } {
  const { hiddenSize } = layer.sizes;
  const leaves = layer.leaves(names);
  return {
    body: {
      kind: 'per-layer-input',
      index: layer.index,
      activation,
      gate: leaves.linear('perLayerInputGate', { rows: size, columns: hiddenSize, adaptable: false }),
      output: leaves.linear('perLayerInputOutput', { rows: hiddenSize, columns: size, adaptable: false }),
    },
    output: leaves.norm('perLayerInputPostNorm', hiddenSize),
  };
}
