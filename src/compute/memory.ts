// What a model takes in memory: its weights as a backend keeps them, and its K/V.

import type { LinearSpec, ModelSpec } from '../model/spec.ts';
import { rowBytes, type TensorType } from '../weights/tensor-type.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import { BLOCK_TOKENS, type KvType } from './backend.ts';

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

/** Bytes of one block of 32 tokens in all layers, as the cpu backend stores it. */
export function kvBlockBytes(spec: ModelSpec, kvType: KvType): number {
  const valueSize = Math.ceil(spec.headSize / 16) * 16;
  const values = (spec.headSize + valueSize) * BLOCK_TOKENS;
  const headBytes = kvType === 'f16' ? values * 2 : values + 2 * BLOCK_TOKENS * 4;
  return headBytes * spec.kvHeadCount * spec.layers.length;
}
