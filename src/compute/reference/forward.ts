// One forward pass over all rows of a batch, from token ids to final states and logits.

import type { Activation, ModelSpec } from '../../model/spec.ts';
import type { Batch, StepResult } from '../backend.ts';
import { attend } from './attention.ts';
import { type BatchRows, batchRows } from './batch-rows.ts';
import type { KvCache, KvLayer } from './kv-cache.ts';
import { applyLinear, decodeRow } from './linear.ts';
import { rmsNorm } from './norm.ts';
import { type Rotations, rotate, rotationsAt } from './rope.ts';
import { addInto, softcap } from './vector.ts';
import type { LayerWeights, ModelWeights } from './weights.ts';

export function forward(spec: ModelSpec, weights: ModelWeights, cache: KvCache, batch: Batch): StepResult {
  const rows = batchRows(batch);
  const rotations = spec.ropes.map((rope) => rotationsAt(rope, rows.positions));
  const hidden = embed(spec, weights, batch.tokens);
  for (const [index, layer] of weights.layers.entries()) {
    const turns = rotations[layer.spec.rope] as Rotations;
    addInto(hidden, attentionBranch(spec, layer, hidden, cache.layer(index), rows, turns));
    addInto(hidden, ffnBranch(spec, layer, hidden));
  }
  const statesOf = (wanted: Int32Array) => finalStates(spec, weights, hidden, wanted);
  return {
    logits: logits(spec, weights, statesOf(batch.logitRows)),
    states: statesOf(batch.stateRows),
  };
}

function embed(spec: ModelSpec, { embedding }: ModelWeights, tokens: Int32Array): Float32Array {
  const { hiddenSize, embeddingScale } = spec;
  const hidden = new Float32Array(tokens.length * hiddenSize);
  for (const [row, token] of tokens.entries()) {
    decodeRow(embedding, token, hidden.subarray(row * hiddenSize, (row + 1) * hiddenSize));
  }
  return embeddingScale === 1 ? hidden : hidden.map((value) => value * embeddingScale);
}

function attentionBranch(
  spec: ModelSpec,
  layer: LayerWeights,
  hidden: Float32Array,
  cache: KvLayer,
  rows: BatchRows,
  rotations: Rotations,
): Float32Array {
  const { normEpsilon, headCount, kvHeadCount, headSize } = spec;
  const input = rmsNorm(hidden.slice(), layer.attentionNorm, normEpsilon);
  const queries = applyLinear(layer.query, input);
  const keys = applyLinear(layer.key, input);
  if (layer.queryNorm !== undefined) rmsNorm(queries, layer.queryNorm, normEpsilon);
  if (layer.keyNorm !== undefined) rmsNorm(keys, layer.keyNorm, normEpsilon);
  rotate(queries, headCount, headSize, rotations);
  rotate(keys, kvHeadCount, headSize, rotations);
  // Every new row is stored before any is read: rows of one sequence see each other.
  cache.store(rows.slots, keys, applyLinear(layer.value, input));
  const output = applyLinear(layer.output, attend(spec, layer.spec, queries, cache, rows));
  return layer.attentionPostNorm === undefined
    ? output
    : rmsNorm(output, layer.attentionPostNorm, normEpsilon);
}

function ffnBranch(spec: ModelSpec, layer: LayerWeights, hidden: Float32Array): Float32Array {
  const input = rmsNorm(hidden.slice(), layer.ffnNorm, spec.normEpsilon);
  const activate = activations[spec.activation];
  const up = applyLinear(layer.up, input);
  const gated = applyLinear(layer.gate, input).map((value, index) => activate(value) * (up[index] as number));
  const output = applyLinear(layer.down, gated);
  return layer.ffnPostNorm === undefined ? output : rmsNorm(output, layer.ffnPostNorm, spec.normEpsilon);
}

const activations: Readonly<Record<Activation, (value: number) => number>> = {
  silu: (value) => value / (1 + Math.exp(-value)),
  'gelu-tanh': (value) =>
    0.5 * value * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (value + 0.044715 * value ** 3))),
};

function finalStates(
  { hiddenSize, normEpsilon }: ModelSpec,
  { finalNorm }: ModelWeights,
  hidden: Float32Array,
  wanted: Int32Array,
): Float32Array {
  const states = new Float32Array(wanted.length * hiddenSize);
  for (const [index, row] of wanted.entries()) {
    states.set(hidden.subarray(row * hiddenSize, (row + 1) * hiddenSize), index * hiddenSize);
  }
  return rmsNorm(states, finalNorm, normEpsilon);
}

function logits({ logitSoftcap }: ModelSpec, { head }: ModelWeights, states: Float32Array): Float32Array {
  const result = applyLinear(head, states);
  return logitSoftcap === undefined ? result : result.map((value) => softcap(value, logitSoftcap));
}
