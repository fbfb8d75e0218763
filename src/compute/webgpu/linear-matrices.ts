// The matrices of linear maps that read the same input, with their biases, loaded into GPU memory.

import type { LinearSpec } from '../../model/spec.ts';
import { readBias } from '../../model/weight-reader.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import {
  type ExpertMatrix,
  type GpuMatrix,
  joinedLinears,
  loadExperts,
  loadMatrix,
  type MatrixLoader,
} from './matrix.ts';

/** Matrices write side by side into one row. */
export type Matrices<Matrix> = readonly {
  readonly matrix: Matrix;
  readonly offset: number;
  /** For each of its parts, where there are any. */
  readonly bias: readonly GPUBuffer[];
}[];

export const inputsOf = (specs: readonly LinearSpec[]): number => (specs[0] as LinearSpec).columns;

/** Joined into one matrix where types and sizes allow it: one kernel instead of several. */
export async function loadMatrices(
  loader: MatrixLoader,
  label: string,
  specs: readonly LinearSpec[],
): Promise<Matrices<GpuMatrix>> {
  const loaded: { matrix: GpuMatrix; offset: number; bias: GPUBuffer[] }[] = [];
  let offset = 0;
  for (const set of joinedLinears(loader.weights, specs)) {
    const slices = set.map(({ weight }) => weight);
    const matrix = await loadMatrix(loader, label, { inputs: inputsOf(set), slices });
    loaded.push({ matrix, offset, bias: await loadBiases(loader, matrix, set) });
    offset += matrix.outputs;
  }
  return loaded;
}

export async function loadExpertMatrices(
  loader: MatrixLoader,
  label: string,
  experts: readonly (readonly LinearSpec[])[],
): Promise<Matrices<ExpertMatrix>> {
  const [first] = experts as readonly [readonly LinearSpec[]];
  const loaded: { matrix: ExpertMatrix; offset: number; bias: GPUBuffer[] }[] = [];
  let [offset, from] = [0, 0];
  for (const { length } of joinedLinears(loader.weights, first)) {
    const sets = experts.map((specs) => specs.slice(from, from + length));
    const slices = sets.map((set) => set.map(({ weight }) => weight));
    const matrix = await loadExperts(loader, label, inputsOf(first), slices);
    const hasBias = sets.flat().some(({ bias }) => bias !== undefined);
    const bias: GPUBuffer[] = [];
    for (const { firstExpert, experts: count } of hasBias ? matrix.parts : []) {
      const own = sets.slice(firstExpert, firstExpert + count).flat();
      bias.push(await loader.memory.filled('bias', joinedBias(loader.weights, own)));
    }
    loaded.push({ matrix, offset, bias });
    offset += matrix.outputs;
    from += length;
  }
  return loaded;
}

/** A buffer for each part, where any of the linears that make up a matrix has a bias. */
export async function loadBiases(
  { memory, weights }: MatrixLoader,
  { parts }: GpuMatrix,
  specs: readonly LinearSpec[],
): Promise<GPUBuffer[]> {
  if (specs.every(({ bias }) => bias === undefined)) return [];
  const values = joinedBias(weights, specs);
  const buffers: GPUBuffer[] = [];
  for (const { firstOutput, outputs } of parts) {
    buffers.push(await memory.filled('bias', values.slice(firstOutput, firstOutput + outputs)));
  }
  return buffers;
}

function joinedBias(weights: WeightSource, specs: readonly LinearSpec[]): Float32Array<ArrayBuffer> {
  const values = new Float32Array(specs.reduce((sum, { weight }) => sum + weight.rows, 0));
  let at = 0;
  for (const { weight, bias } of specs) {
    if (bias !== undefined) values.set(readBias(weights, bias), at);
    at += weight.rows;
  }
  return values;
}
