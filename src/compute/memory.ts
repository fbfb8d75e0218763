// The memory of a model: its weights as a backend stores them, its KV blocks and its recurrent states.

import { leavesOf } from '../model/leaves.ts';
import type { MatrixSpec, ModelSpec } from '../model/spec.ts';
import { isHeadTied, keptStateSize, layerMatrices, outerAdditions } from '../model/spec-walk.ts';
import { rowType } from '../model/weight-reader.ts';
import { rowBytes, type TensorType } from '../weights/tensor-type.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import type { BackendName, KvType } from './backend.ts';
import { loadAddon } from './cpu/binding.ts';
import { scratchBytes as cudaScratchBytes } from './cuda/scratch-bytes.ts';
import { requireKvType } from './kv-type.ts';
import { blockBytes } from './reference/kv-cache.ts';
import { matrixBytes as gpuMatrixBytes } from './webgpu/format.ts';
import { scratchBytes } from './webgpu/forward.ts';
import { cacheBlockBytes } from './webgpu/kernels/kv-layout.ts';

export type MatrixBytes = (type: TensorType, outputs: number, inputs: number) => number;

export interface BackendSizes {
  readonly matrixBytes: MatrixBytes;
  /** Bytes of one block of 32 tokens in all layers. Throws BackendUnavailableError where the model's KV cannot be of this type. */
  kvBlockBytes(spec: ModelSpec, kvType: KvType): number;
  /** Scratch memory of steps on a GPU; `layerBytes` is what can be bound at once. */
  scratchBytes?(spec: ModelSpec, kvType: KvType, layerBytes: number): number;
}

export const fileMatrixBytes: MatrixBytes = (type, outputs, inputs) => outputs * rowBytes(type, inputs);

const referenceSizes: BackendSizes = {
  matrixBytes: fileMatrixBytes,
  kvBlockBytes: (spec) => blockBytes(spec),
};

const gpuSizes: BackendSizes = {
  matrixBytes: gpuMatrixBytes,
  kvBlockBytes(spec, kvType) {
    requireKvType(kvType, 'webgpu', spec);
    return cacheBlockBytes(spec, kvType).reduce((sum, bytes) => sum + bytes, 0);
  },
  scratchBytes,
};

/** How many KV blocks have at most `layerBytes` in any one layer: a GPU binds a layer's part as a whole. */
export function bindableBlocks(spec: ModelSpec, kvType: KvType, layerBytes: number): number {
  return Math.floor(layerBytes / Math.max(1, ...cacheBlockBytes(spec, kvType)));
}

/** Defaults to the backend that `chooseBackend` takes without a GPU. */
export function sizesOf(backend?: BackendName): BackendSizes {
  if (backend === 'webgpu') return gpuSizes;
  const load = backend === 'reference' ? undefined : loadAddon();
  if (!load?.available) return referenceSizes;
  const { addon } = load;
  return {
    matrixBytes: addon.matrixBytes,
    kvBlockBytes(spec, kvType) {
      requireKvType(kvType, backend, spec);
      return addon.kvBlockBytes(kvType, spec.caches, keptStateSize(spec));
    },
    ...(backend === 'cuda' ? { scratchBytes: cudaScratchBytes } : {}),
  };
}

export function weightBytes(spec: ModelSpec, weights: WeightSource, matrixBytes: MatrixBytes): number {
  const tables = leavesOf(spec, 'table').map((weight) => ({ weight, columns: weight.columns }));
  const matrices = layerMatrices(spec).map(({ matrix }) => matrix);
  const head = isHeadTied(spec) ? [] : [spec.head];
  return [...tables, ...matrices, ...head, ...outerAdditions(spec)].reduce(
    (sum, matrix) => sum + bytesOfMatrix(matrix, weights, matrixBytes),
    0,
  );
}

/** Of one sequence. */
export function recurrentStateBytes({ recurrentStates }: ModelSpec): number {
  return recurrentStates.reduce((sum, { size }) => sum + size * Float32Array.BYTES_PER_ELEMENT, 0);
}

export function bytesOfMatrix(
  { weight, columns }: MatrixSpec,
  weights: WeightSource,
  matrixBytes: MatrixBytes,
): number {
  return matrixBytes(rowType(weights, weight), weight.rows, columns);
}
