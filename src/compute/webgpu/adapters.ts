// What adapters add to linear maps that read one input, brought to the GPU: all adapters of all maps in two buffers.

import { outputFactors } from '../../model/output-factors.ts';
import type { AdditionSpec, LinearSpec, ModelSpec, RowSlice } from '../../model/spec.ts';
import { readLinearRows, rowType } from '../../model/weight-reader.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { rowBytes } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { AdditionsShape } from './kernels/adapters.ts';
import type { MatrixLoader } from './matrix.ts';
import { GpuMemoryError } from './memory.ts';
import { MOST_MAPS } from './widths.ts';

export interface Additions {
  readonly shape: AdditionsShape;
  /** [adapter][expert][map, rank][input]. */
  readonly down: GPUBuffer;
  /** [adapter][expert][rank][output], with their scales. */
  readonly up: GPUBuffer;
  /** [adapter][expert][factor, shift][output], where any has a magnitude. */
  readonly factors: GPUBuffer | undefined;
}

/** Of the maps of each expert, or of one set of maps that all rows pass; undefined where no adapter adds to any of them. */
export async function loadAdditions(
  { memory, weights, bindingBytes }: MatrixLoader,
  experts: readonly (readonly LinearSpec[])[],
): Promise<Additions | undefined> {
  const all = experts.flat().flatMap(({ additions = [] }) => additions);
  if (all.length === 0) return undefined;
  const [specs] = experts as readonly [readonly LinearSpec[]];
  if (specs.length > MOST_MAPS) throw new Error(`no more than ${MOST_MAPS} maps read one input`);
  const inputs = (specs[0] as LinearSpec).columns;
  const outputs = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
  const rank = Math.max(...all.map((addition) => addition.rank));
  const adapters = Math.max(...all.map(({ adapter }) => adapter)) + 1;
  const starts = specs.map((_, at) => specs.slice(0, at).reduce((sum, { weight }) => sum + weight.rows, 0));
  const values = specs.length * rank;
  const members = experts.length;
  const shape: AdditionsShape = { inputs, outputs, members, values, rank, starts };
  refuseTooLarge(adapters * members * Math.max(values * inputs, rank * outputs), bindingBytes);
  const down = new Float32Array(adapters * members * values * inputs);
  const up = new Float32Array(adapters * members * rank * outputs);
  for (const [member, maps] of experts.entries()) {
    for (const [at, { additions = [] }] of maps.entries()) {
      for (const addition of additions) {
        const place = addition.adapter * members + member;
        down.set(readRows(weights, addition.down, inputs), (place * values + at * rank) * inputs);
        turnUp(weights, addition, up, { place, rank, outputs, start: starts[at] as number });
      }
    }
  }
  return {
    shape,
    down: await memory.filled('adapters, down', down),
    up: await memory.filled('adapters, up', up),
    factors: await loadFactors({ memory, weights }, experts, shape, adapters),
  };
}

/** What adapters add to embeddings. */
export interface EmbeddingAdditions {
  readonly shape: AdditionsShape;
  /** [adapter][token][rank]. */
  readonly table: GPUBuffer;
  /** [adapter][rank][output], with their scales. */
  readonly up: GPUBuffer;
}

export async function loadEmbeddingAdditions(
  { memory, weights, bindingBytes }: MatrixLoader,
  { embeddingAdditions: all = [], vocabSize, hiddenSize }: ModelSpec,
): Promise<EmbeddingAdditions | undefined> {
  if (all.length === 0) return undefined;
  const rank = Math.max(...all.map((addition) => addition.rank));
  const adapters = Math.max(...all.map(({ adapter }) => adapter)) + 1;
  refuseTooLarge(adapters * rank * Math.max(vocabSize, hiddenSize), bindingBytes);
  const table = new Float32Array(adapters * vocabSize * rank);
  const up = new Float32Array(adapters * rank * hiddenSize);
  for (const addition of all) {
    const stored = readRows(weights, addition.table, addition.rank);
    for (let token = 0; token < vocabSize; token++) {
      const own = stored.subarray(token * addition.rank, (token + 1) * addition.rank);
      table.set(own, (addition.adapter * vocabSize + token) * rank);
    }
    const outer = { ...addition, up: addition.up.weight };
    turnUp(weights, outer, up, { place: addition.adapter, rank, outputs: hiddenSize, start: 0 });
  }
  return {
    shape: { inputs: 0, outputs: hiddenSize, members: 1, values: rank, rank, starts: [0] },
    table: await memory.filled('adapters, embeddings', table),
    up: await memory.filled('adapters, up', up),
  };
}

function refuseTooLarge(floats: number, bindingBytes: number): void {
  if (4 * floats <= bindingBytes) return;
  throw new GpuMemoryError(
    `what adapters add in one place takes ${Math.ceil((4 * floats) / 2 ** 20)} MiB, more than this GPU can bind (${Math.floor(bindingBytes / 2 ** 20)}); load fewer adapters, or use --backend cpu`,
  );
}

async function loadFactors(
  { memory, weights }: Pick<MatrixLoader, 'memory' | 'weights'>,
  experts: readonly (readonly LinearSpec[])[],
  { members, outputs, starts }: AdditionsShape,
  adapters: number,
): Promise<GPUBuffer | undefined> {
  const additions = experts.flat().flatMap((spec) => spec.additions ?? []);
  if (additions.every(({ magnitude }) => magnitude === undefined)) return undefined;
  const all = new Float32Array(adapters * members * 2 * outputs);
  for (let place = 0; place < adapters * members; place++) {
    all.fill(1, place * 2 * outputs, (place * 2 + 1) * outputs);
  }
  for (const [member, maps] of experts.entries()) {
    for (const [at, spec] of maps.entries()) {
      for (const addition of spec.additions ?? []) {
        const own = outputFactors(weights, spec, addition);
        const start = (addition.adapter * members + member) * 2 * outputs + (starts[at] as number);
        if (own !== undefined) all.set(own.factors, start);
        if (own !== undefined) all.set(own.shifts, start + outputs);
      }
    }
  }
  return memory.filled('adapters, factors', all);
}

function turnUp(
  weights: WeightSource,
  { rank: ownRank, scale, up: slice }: Pick<AdditionSpec, 'rank' | 'scale' | 'up'>,
  into: Float32Array,
  { place, rank, outputs, start }: Readonly<Record<'place' | 'rank' | 'outputs' | 'start', number>>,
): void {
  const stored = readRows(weights, slice, ownRank);
  for (let row = 0; row < slice.rows; row++) {
    for (let k = 0; k < ownRank; k++) {
      into[(place * rank + k) * outputs + start + row] = scale * (stored[row * ownRank + k] as number);
    }
  }
}

function readRows(weights: WeightSource, slice: RowSlice, columns: number): Float32Array {
  const type = rowType(weights, slice);
  const bytes = new Uint8Array(slice.rows * rowBytes(type, columns));
  readLinearRows(weights, slice, 0, slice.rows, bytes);
  const floats = new Float32Array(slice.rows * columns);
  dequantize(type, bytes, floats);
  return floats;
}
