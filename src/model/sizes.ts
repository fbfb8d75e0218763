// The sizes every architecture shares, read once and checked against each other.

import { type Config, configError, fieldOf, optionalSize, positive, size } from './config.ts';

export interface ModelSizes {
  readonly hiddenSize: number;
  readonly layerCount: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly ffnSize: number;
  readonly vocabSize: number;
  /** Positions served: the model's own limit, or less where the caller asks for less. */
  readonly contextLength: number;
  readonly normEpsilon: number;
}

export function modelSizes(config: Config, modelContext: number, contextLimit?: number): ModelSizes {
  const hiddenSize = size(config, 'hidden_size');
  const headCount = size(config, 'num_attention_heads');
  return {
    hiddenSize,
    layerCount: size(config, 'num_hidden_layers'),
    headCount,
    kvHeadCount: kvHeads(config, headCount),
    headSize: headSize(config, hiddenSize, headCount),
    ffnSize: optionalSize(config, 'intermediate_size') ?? expertSize(config),
    vocabSize: size(config, 'vocab_size'),
    contextLength: Math.min(modelContext, contextLimit ?? modelContext),
    normEpsilon: normEpsilon(config),
  };
}

/** Where no layer is without experts, files may give their size alone. */
function expertSize(config: Config): number {
  return optionalSize(config, 'moe_intermediate_size') ?? size(config, 'intermediate_size');
}

/** Families of layer norms spell it differently. */
function normEpsilon(config: Config): number {
  const spelled = ['layer_norm_eps', 'norm_epsilon', 'norm_eps'].find(
    (field) => fieldOf(config, field) !== undefined,
  );
  return positive(
    config,
    fieldOf(config, 'rms_norm_eps') === undefined ? (spelled ?? 'rms_norm_eps') : 'rms_norm_eps',
  );
}

function kvHeads(config: Config, headCount: number): number {
  const kvHeadCount = optionalSize(config, 'num_key_value_heads') ?? headCount;
  if (headCount % kvHeadCount === 0) return kvHeadCount;
  throw configError(
    config,
    'num_key_value_heads',
    `${headCount} heads cannot share ${kvHeadCount} key/value heads evenly`,
  );
}

function headSize(config: Config, hiddenSize: number, headCount: number): number {
  // Where attention is MLA, only the part of a head that is rotated counts.
  const latent = fieldOf(config, 'kv_lora_rank') !== undefined;
  const rotated = latent ? optionalSize(config, 'qk_rope_head_dim') : undefined;
  const given = optionalSize(config, 'head_dim') ?? rotated;
  const result = given ?? hiddenSize / headCount;
  if (Number.isInteger(result) && result % 2 === 0) return result;
  throw configError(
    config,
    given === undefined ? 'hidden_size' : 'head_dim',
    given === undefined
      ? `${hiddenSize} does not split into ${headCount} heads of an even size, and head_dim is not given`
      : `must be even for rotary pairs, but is ${given}`,
  );
}
