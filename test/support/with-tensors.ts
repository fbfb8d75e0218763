// Tiny models whose layers were changed: what a spec names and the model's weights lack is made up.

import type { ModelSpec } from '../../src/model/spec.ts';
import { layerMatrices, vectorsOf } from '../../src/model/spec-walk.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { floatTensor, memoryWeights } from './memory-weights.ts';
import { seededRandom } from './random-blocks.ts';
import type { TinyModel } from './tiny-model.ts';

/** Each tensor that is missing is as large as the one slice that names it. */
export function withTensors(spec: ModelSpec, weights: WeightSource): TinyModel {
  const random = seededRandom(3);
  const floats = (size: number, spread: number) =>
    Float32Array.from({ length: size }, () => spread * (2 * random() - 1));
  const own = memoryWeights([
    ...layerMatrices(spec).map(({ matrix: { weight, columns } }) =>
      floatTensor(weight.tensor, [weight.rows, columns], floats(weight.rows * columns, 2 * columns ** -0.5)),
    ),
    ...vectorsOf(spec).map(({ tensor, size }) => floatTensor(tensor, [size], floats(size, 1))),
  ]);
  return {
    spec,
    weights: {
      ...weights,
      tensors: new Map([...own.tensors, ...weights.tensors]),
      readRows: (name, ...rest) => (weights.tensors.has(name) ? weights : own).readRows(name, ...rest),
    },
  };
}
