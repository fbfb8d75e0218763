// What a model takes in memory: its weights as a backend keeps them, and its K/V.

import type { LinearSpec, ModelSpec } from '../model/spec.ts';
import { rowBytes, type TensorType } from '../weights/tensor-type.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import type { KvType } from './backend.ts';
import { loadAddon } from './cpu/binding.ts';
import { blockBytes } from './reference/kv-cache.ts';

/** Bytes a backend keeps for a matrix of this type. */
export type MatrixBytes = (type: TensorType, outputs: number, inputs: number) => number;

export const fileMatrixBytes: MatrixBytes = (type, outputs, inputs) => outputs * rowBytes(type, inputs);

export function weightBytes(spec: ModelSpec, weights: WeightSource, matrixBytes: MatrixBytes): number {
  const embedding: LinearSpec = { weight: spec.embedding, columns: spec.hiddenSize };
  const linears = spec.layers.flatMap(({ query, key, value, output, gate, up, down }) => [
    query,
    key,
    value,
    output,
    gate,
    up,
    down,
  ]);
  const tied = spec.head.weight.tensor === spec.embedding.tensor;
  return [embedding, ...linears, ...(tied ? [] : [spec.head])].reduce((sum, { weight, columns }) => {
    const type = weights.tensors.get(weight.tensor)?.type ?? 'F32';
    return sum + matrixBytes(type, weight.rows, columns);
  }, 0);
}

/** Bytes of one block of 32 tokens in all layers, as the backend that serves by itself stores it. */
export function kvBlockBytes(spec: ModelSpec, kvType: KvType): number {
  const load = loadAddon();
  return load.available
    ? load.addon.kvBlockBytes(kvType, spec.headSize, spec.kvHeadCount, spec.layers.length)
    : blockBytes(spec);
}
