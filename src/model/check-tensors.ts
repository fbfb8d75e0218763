// Checks that a file holds every tensor a ModelSpec names, with exactly the shape the spec expects.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import type { LayerSpec, LinearSpec, ModelSpec, RowSlice } from './spec.ts';

export function checkTensors(spec: ModelSpec, weights: WeightSource, file: string): void {
  for (const [name, shape] of expectedShapes(spec)) {
    const tensor = weights.tensors.get(name);
    if (tensor === undefined) {
      throw new ModelFileError({
        file,
        field: name,
        problem: `the tensor is missing; a ${spec.architecture} model of ${spec.layers.length} layers needs it`,
        remedy: 'The file is incomplete, or its configuration is not its own; download it again.',
      });
    }
    if (tensor.shape.join() !== shape.join()) {
      throw new ModelFileError({
        file,
        field: name,
        problem: `has the shape [${tensor.shape.join(', ')}] where the configuration asks for [${shape.join(', ')}]`,
        remedy: 'The configuration and the weights do not belong together; download both again.',
      });
    }
  }
}

type Shapes = Map<string, readonly number[]>;

function expectedShapes(spec: ModelSpec): Shapes {
  const shapes: Shapes = new Map();
  addSlice(shapes, spec.embedding, spec.hiddenSize);
  for (const layer of spec.layers) addLayer(shapes, spec, layer);
  shapes.set(spec.finalNorm, [spec.hiddenSize]);
  addLinear(shapes, spec.head);
  return shapes;
}

function addLayer(shapes: Shapes, spec: ModelSpec, layer: LayerSpec): void {
  const { query, key, value, output, gate, up, down } = layer;
  for (const linear of [query, key, value, output, gate, up, down]) addLinear(shapes, linear);
  const { attentionNorm, attentionPostNorm, ffnNorm, ffnPostNorm, queryNorm, keyNorm } = layer;
  for (const norm of [attentionNorm, attentionPostNorm, ffnNorm, ffnPostNorm]) {
    if (norm !== undefined) shapes.set(norm, [spec.hiddenSize]);
  }
  for (const norm of [queryNorm, keyNorm]) {
    if (norm !== undefined) shapes.set(norm, [spec.headSize]);
  }
}

function addLinear(shapes: Shapes, linear: LinearSpec): void {
  addSlice(shapes, linear.weight, linear.columns);
  if (linear.bias !== undefined) addSlice(shapes, linear.bias);
}

/** Slices of one tensor follow each other, so the last one ends where the tensor does. */
function addSlice(shapes: Shapes, slice: RowSlice, columns?: number): void {
  const rows = Math.max(slice.firstRow + slice.rows, shapes.get(slice.tensor)?.[0] ?? 0);
  shapes.set(slice.tensor, columns === undefined ? [rows] : [rows, columns]);
}
