// How the features of views are joined, with its vector read from the file: for backends whose addon runs programs.

import { mapLeaves } from '../../model/leaves.ts';
import type { JoinSpec } from '../../model/vision/vision-spec.ts';
import { readVector } from '../../model/weight-reader.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Join } from './join-views.ts';

export function loadJoin(join: JoinSpec, weights: WeightSource): Join {
  const load = (leaf: unknown): never => {
    throw new Error(`features are joined by vectors alone, not by ${JSON.stringify(leaf)}`);
  };
  return mapLeaves<JoinSpec, { linear: never; norm: never; table: never; vector: Float32Array }>(join, {
    linear: load,
    norm: load,
    table: load,
    vector: (vector) => readVector(weights, vector),
  });
}
