// Checks that a file holds every tensor a ModelSpec names, with exactly the size the spec expects.

import { ModelFileError, printable } from '../weights/model-file-error.ts';
import { columnsOf, rowsOf, type TensorInfo, type WeightSource } from '../weights/weight-source.ts';
import { leavesOf } from './leaves.ts';
import type { ModelSpec, RowSlice } from './spec.ts';
import { layerMatrices, vectorsOf } from './spec-walk.ts';

interface Size {
  readonly rows?: number;
  readonly columns: number;
}

export function checkTensors(spec: ModelSpec, weights: WeightSource, file: string): void {
  const sizes = expectedSizes(spec);
  for (const [name, size] of sizes) {
    const tensor = weights.tensors.get(name);
    if (tensor === undefined) throw missingTensor(spec, name, unknownLike(name, sizes, weights), file);
    if (!hasSize(tensor, size)) {
      const wanted = size.rows === undefined ? `${size.columns}` : `${size.rows}, ${size.columns}`;
      throw new ModelFileError({
        file,
        field: name,
        problem: `has the shape [${tensor.shape.join(', ')}] where the configuration asks for [${wanted}]`,
        remedy: 'The configuration and the weights do not belong together; download both again.',
      });
    }
  }
}

/** A whole file may hold the same in tensors that are not known: `unknownTensor` is one of them. */
function missingTensor(
  { architecture, layers }: ModelSpec,
  name: string,
  unknownTensor: string | undefined,
  file: string,
): ModelFileError {
  if (unknownTensor === undefined) {
    return new ModelFileError({
      file,
      field: name,
      problem: `the tensor is missing; a ${architecture} model of ${layers.length} layers needs it`,
      remedy: 'The file is incomplete, or its configuration is not its own; download it again.',
    });
  }
  return new ModelFileError({
    file,
    field: name,
    problem: `is not there, but ${printable(unknownTensor)} is: this layout of ${architecture} is not known`,
    remedy:
      "Use the model's original files, a GGUF, or a conversion of a current mlx-lm; or config.json is not this model's.",
  });
}

/** A tensor of the same layer that no part of the model is; any tensor where nothing of the model is there. */
function unknownLike(
  name: string,
  sizes: ReadonlyMap<string, Size>,
  { tensors }: WeightSource,
): string | undefined {
  const names = [...tensors.keys()];
  const [layer] = /^.*?\.\d+\./.exec(name) ?? [];
  if (layer === undefined) return names.some((one) => sizes.has(one)) ? undefined : names[0];
  const candidates = names.filter((one) => one.startsWith(layer) && !sizes.has(one));
  // The one with the most of the name in common shows best what is meant.
  return candidates.sort((a, b) => sharedLength(b, name) - sharedLength(a, name))[0];
}

function sharedLength(one: string, other: string): number {
  const end = [...one].findIndex((letter, index) => letter !== other[index]);
  return end < 0 ? one.length : end;
}

/** Stacked matrices count as one of all their rows, stacked vectors as one of all their values. */
function hasSize(tensor: TensorInfo, { rows, columns }: Size): boolean {
  if (rows === undefined) return rowsOf(tensor) * columnsOf(tensor) === columns;
  return rowsOf(tensor) === rows && columnsOf(tensor) === columns;
}

export function expectedSizes(spec: ModelSpec): ReadonlyMap<string, Size> {
  const sizes = new Map<string, Size>();
  for (const table of leavesOf(spec, 'table')) addSlice(sizes, table, table.columns);
  for (const { matrix } of layerMatrices(spec)) addSlice(sizes, matrix.weight, matrix.columns);
  addSlice(sizes, spec.head.weight, spec.head.columns);
  for (const { bias } of leavesOf(spec, 'linear')) addBias(sizes, bias);
  for (const { tensor, size } of vectorsOf(spec)) sizes.set(tensor, { columns: size });
  return sizes;
}

function addBias(sizes: Map<string, Size>, bias: RowSlice | undefined): void {
  if (bias === undefined) return;
  const columns = Math.max(endOf(bias), sizes.get(bias.tensor)?.columns ?? 0);
  sizes.set(bias.tensor, { columns });
}

/** Slices of one tensor follow each other, so the last one ends where the tensor does. */
function addSlice(sizes: Map<string, Size>, slice: RowSlice, columns: number): void {
  const { tensor, transposed } = slice;
  const end = transposed === undefined ? endOf(slice) : turnedEnd(slice, transposed, columns);
  const rows = Math.max(end, sizes.get(tensor)?.rows ?? 0);
  sizes.set(tensor, { rows, columns: transposed?.rows ?? columns });
}

function turnedEnd(
  slice: RowSlice,
  { rows, every }: NonNullable<RowSlice['transposed']>,
  inputs: number,
): number {
  const matrices = endOf(slice) / rows;
  return every === undefined ? matrices * inputs : (matrices - 1) * every + inputs;
}

function endOf({ firstRow, rows, runs }: RowSlice): number {
  return firstRow + (runs === undefined ? rows : (rows / runs.rows - 1) * runs.every + runs.rows);
}
