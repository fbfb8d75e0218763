// What one decode step must read from memory: every weight once, and the K/V of everything each stream has behind it.
// Norms, biases and activations are left out: they are thousands of times smaller.

import { BLOCK_TOKENS, type KvType } from '../../compute/backend.ts';
import { type BackendSizes, type MatrixBytes, weightBytes } from '../../compute/memory.ts';
import type { ModelSpec } from '../../model/spec.ts';
import type { WeightSource } from '../../weights/weight-source.ts';

export interface StepBytes {
  readonly weights: number;
  readonly kv: number;
}

/** `contextTokens` is what each of the streams attends to, its new token included. */
export function decodeStepBytes(
  spec: ModelSpec,
  weights: WeightSource,
  sizes: BackendSizes,
  step: { readonly streams: number; readonly contextTokens: number; readonly kvType: KvType },
): StepBytes {
  return {
    weights: readWeightBytes(spec, weights, sizes.matrixBytes, step.streams),
    kv: step.streams * kvBytes(spec, sizes.kvBlockBytes(spec, step.kvType), step.contextTokens),
  };
}

/** All matrices; of an embedding that is not also the head, one row a stream. */
function readWeightBytes(
  spec: ModelSpec,
  weights: WeightSource,
  matrixBytes: MatrixBytes,
  streams: number,
): number {
  const kept = weightBytes(spec, weights, matrixBytes);
  if (spec.head.weight.tensor === spec.embedding.tensor) return kept;
  const type = weights.tensors.get(spec.embedding.tensor)?.type ?? 'F32';
  const embedding = matrixBytes(type, spec.embedding.rows, spec.hiddenSize);
  return kept - embedding + (streams * embedding) / spec.embedding.rows;
}

/** Layers with a window read no further back than it reaches. */
function kvBytes(spec: ModelSpec, blockBytes: number, contextTokens: number): number {
  const bytesPerTokenAndLayer = blockBytes / BLOCK_TOKENS / spec.layers.length;
  const tokens = spec.layers.reduce(
    (sum, { window }) => sum + Math.min(contextTokens, window ?? contextTokens),
    0,
  );
  return tokens * bytesPerTokenAndLayer;
}
