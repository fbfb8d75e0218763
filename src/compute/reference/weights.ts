// A model's spec with every leaf loaded.

import { leavesOf, type MapLeaves, mapLeaves } from '../../model/leaves.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { isHeadTied } from '../../model/spec-walk.ts';
import { type NormWeights, readNorm, readVector } from '../../model/weight-reader.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { type Linear, loadLinear, loadMatrix, type Matrix, type RowAdapters } from './linear.ts';

interface LoadedLeaves {
  readonly linear: Linear;
  readonly norm: NormWeights;
  readonly vector: Float32Array;
  readonly table: Matrix;
}

export type Loaded<Spec> = MapLeaves<Spec, LoadedLeaves>;
export type ModelWeights = Loaded<ModelSpec>;

export function loadModelWeights(
  spec: ModelSpec,
  weights: WeightSource,
  adapters: RowAdapters,
  onProgress: (share: number) => void,
): ModelWeights {
  const embedding = loadMatrix(weights, spec.embedding, spec.embedding.columns);
  const linearCount = leavesOf(spec, 'linear').length;
  let linears = 0;
  return mapLeaves<ModelSpec, LoadedLeaves>(spec, {
    linear: (linear) => {
      onProgress(++linears / linearCount);
      // A tied head shares the embedding's memory.
      const tied = linear === spec.head && isHeadTied(spec) && linear.bias === undefined;
      return loadLinear(weights, linear, adapters, tied ? embedding : undefined);
    },
    norm: (norm) => readNorm(weights, norm),
    vector: (vector) => readVector(weights, vector),
    table: (table) => (table === spec.embedding ? embedding : loadMatrix(weights, table, table.columns)),
  });
}
