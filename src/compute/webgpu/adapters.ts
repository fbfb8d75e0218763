// What adapters add to linear maps that read one input, brought to the GPU: all adapters of all maps in two buffers.

import { outputFactors } from '../../model/output-factors.ts';
import type { AdditionSpec, LinearSpec, RowSlice } from '../../model/spec.ts';
import { readLinearRows } from '../../model/weight-reader.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { requireTensor } from '../../weights/read-tensor.ts';
import { rowBytes } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { AdditionsShape } from './kernels/adapters.ts';
import type { MatrixLoader } from './matrix.ts';
import { MOST_MAPS } from './widths.ts';

export interface Additions {
  readonly shape: AdditionsShape;
  /** [adapter][map, rank][input]. */
  readonly down: GPUBuffer;
  /** [adapter][rank][output], with their scales. */
  readonly up: GPUBuffer;
  /** [adapter][factor, shift][output], where any has a magnitude. */
  readonly factors: GPUBuffer | undefined;
}

/** Undefined where no adapter adds to any of them. */
export async function loadAdditions(
  { memory, weights }: MatrixLoader,
  specs: readonly LinearSpec[],
): Promise<Additions | undefined> {
  const all = specs.flatMap(({ additions = [] }) => additions);
  if (all.length === 0) return undefined;
  if (specs.length > MOST_MAPS) throw new Error(`no more than ${MOST_MAPS} maps read one input`);
  const inputs = (specs[0] as LinearSpec).columns;
  const outputs = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
  const rank = Math.max(...all.map((addition) => addition.rank));
  const adapters = Math.max(...all.map(({ adapter }) => adapter)) + 1;
  const starts = specs.map((_, at) => specs.slice(0, at).reduce((sum, { weight }) => sum + weight.rows, 0));
  const values = specs.length * rank;
  const down = new Float32Array(adapters * values * inputs);
  const up = new Float32Array(adapters * rank * outputs);
  for (const [at, { additions = [] }] of specs.entries()) {
    for (const addition of additions) {
      down.set(readRows(weights, addition.down, inputs), (addition.adapter * values + at * rank) * inputs);
      turnUp(weights, addition, up, { rank, outputs, start: starts[at] as number });
    }
  }
  return {
    shape: { inputs, outputs, values, rank, starts },
    down: await memory.filled('adapters, down', down),
    up: await memory.filled('adapters, up', up),
    factors: await loadFactors({ memory, weights }, specs, { adapters, outputs, starts }),
  };
}

async function loadFactors(
  { memory, weights }: Pick<MatrixLoader, 'memory' | 'weights'>,
  specs: readonly LinearSpec[],
  {
    adapters,
    outputs,
    starts,
  }: { readonly adapters: number; readonly outputs: number; readonly starts: readonly number[] },
): Promise<GPUBuffer | undefined> {
  if (!specs.some(({ additions }) => additions?.some(({ magnitude }) => magnitude))) return undefined;
  const all = new Float32Array(adapters * 2 * outputs);
  for (let adapter = 0; adapter < adapters; adapter++) {
    all.fill(1, adapter * 2 * outputs, (adapter * 2 + 1) * outputs);
  }
  for (const [at, spec] of specs.entries()) {
    for (const addition of spec.additions ?? []) {
      const own = outputFactors(weights, spec, addition);
      const start = addition.adapter * 2 * outputs + (starts[at] as number);
      if (own !== undefined) all.set(own.factors, start);
      if (own !== undefined) all.set(own.shifts, start + outputs);
    }
  }
  return memory.filled('adapters, factors', all);
}

function turnUp(
  weights: WeightSource,
  { adapter, rank: ownRank, scale, up: slice }: AdditionSpec,
  into: Float32Array,
  { rank, outputs, start }: { readonly rank: number; readonly outputs: number; readonly start: number },
): void {
  const stored = readRows(weights, slice, ownRank);
  for (let row = 0; row < slice.rows; row++) {
    for (let k = 0; k < ownRank; k++) {
      into[(adapter * rank + k) * outputs + start + row] = scale * (stored[row * ownRank + k] as number);
    }
  }
}

function readRows(weights: WeightSource, slice: RowSlice, columns: number): Float32Array {
  const { type } = requireTensor(weights, slice.tensor);
  const bytes = new Uint8Array(slice.rows * rowBytes(type, columns));
  readLinearRows(weights, slice, 0, slice.rows, bytes);
  const floats = new Float32Array(slice.rows * columns);
  dequantize(type, bytes, floats);
  return floats;
}
