// The bytes one decode step must read: every weight that is used, once, and the KV cache of each stream. Norms, biases and
// activations are thousands of times smaller and left out.

import { BLOCK_TOKENS, type KvType } from '../../compute/backend.ts';
import { type BackendSizes, bytesOfMatrix, type MatrixBytes } from '../../compute/memory.ts';
import type { CacheSpec, ModelSpec } from '../../model/spec.ts';
import { attendingOf, isHeadTied, layerMatrices } from '../../model/spec-walk.ts';
import type { WeightSource } from '../../weights/weight-source.ts';

export interface StepBytes {
  readonly weights: number;
  readonly kv: number;
}

/** `contextTokens`: what each stream attends to, its new token included. */
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

/**
 * All matrices; one row a stream of an embedding that is not also the head; of experts the expected number that
 * streams route to.
 */
function readWeightBytes(
  spec: ModelSpec,
  weights: WeightSource,
  matrixBytes: MatrixBytes,
  streams: number,
): number {
  const layers = layerMatrices(spec).reduce(
    (sum, { matrix, share }) =>
      sum + (1 - (1 - share) ** streams) * bytesOfMatrix(matrix, weights, matrixBytes),
    0,
  );
  const head = bytesOfMatrix(spec.head, weights, matrixBytes);
  if (isHeadTied(spec)) return layers + head;
  const embedding = bytesOfMatrix({ weight: spec.embedding, columns: spec.hiddenSize }, weights, matrixBytes);
  return layers + head + (streams * embedding) / spec.embedding.rows;
}

/** A sliding window limits what is read. */
function kvBytes(spec: ModelSpec, blockBytes: number, contextTokens: number): number {
  const sizeOf = ({ headCount, headSize, valuesInKeys }: CacheSpec): number =>
    (valuesInKeys === undefined ? 2 : 1) * headCount * headSize;
  const allSizes = spec.caches.reduce((sum, cache) => sum + sizeOf(cache), 0);
  const read = attendingOf(spec).reduce(
    (sum, { cache, window }) =>
      sum + Math.min(contextTokens, window ?? contextTokens) * sizeOf(spec.caches[cache] as CacheSpec),
    0,
  );
  return (blockBytes / BLOCK_TOKENS / allSizes) * read;
}
