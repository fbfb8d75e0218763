// What adapters add to linear maps that read one input: all adapters of all maps in two buffers, and the operations over them.

import { outputFactors } from '../../model/output-factors.ts';
import type { AdditionSpec, LinearSpec, ModelSpec, RowSlice } from '../../model/spec.ts';
import { readLinearRows, rowType } from '../../model/weight-reader.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { rowBytes } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Builder, DeclaredBuffer, ProductOutput } from './builder.ts';
import {
  type AdditionRows,
  type AdditionsShape,
  bringDownKernel,
  EXPANDED_VALUES,
  expandKernel,
  TOKEN_VALUES,
  tokenValuesKernel,
} from './kernels/lora.ts';
import { GpuMemoryError } from './memory.ts';
import type { StepCounts } from './plan-step.ts';

export interface Additions {
  readonly shape: AdditionsShape;
  /** [adapter][expert][map, rank][input]. */
  readonly down: DeclaredBuffer;
  /** [adapter][expert][rank][output], with their scales. */
  readonly up: DeclaredBuffer;
  /** [adapter][expert][factor, shift][output], where any has a magnitude. */
  readonly factors: DeclaredBuffer | undefined;
}

/** The maps of each expert, or one set of maps that all rows pass. */
type Maps = readonly (readonly LinearSpec[])[];

/** Undefined where no adapter adds to any of the maps. */
export function declareAdditions(builder: Builder, experts: Maps): Additions | undefined {
  const all = experts.flat().flatMap(({ additions = [] }) => additions);
  if (all.length === 0) return undefined;
  const [specs] = experts as readonly [readonly LinearSpec[]];
  const inputs = (specs[0] as LinearSpec).columns;
  const outputs = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
  const rank = Math.max(...all.map((addition) => addition.rank));
  const adapters = Math.max(...all.map(({ adapter }) => adapter)) + 1;
  const starts = specs.map((_, at) => specs.slice(0, at).reduce((sum, { weight }) => sum + weight.rows, 0));
  const values = specs.length * rank;
  const members = experts.length;
  const shape: AdditionsShape = { inputs, outputs, adapters, members, values, rank, starts };
  const hasFactors = all.some(({ magnitude }) => magnitude !== undefined);
  return {
    shape,
    down: builder.filled('adapters, down', (weights) => {
      const floats = adapters * members * Math.max(values * inputs, rank * outputs);
      refuseTooLarge(floats, builder.limits.bindingBytes);
      return readDown(weights, experts, shape);
    }),
    up: builder.filled('adapters, up', (weights) => readUp(weights, experts, shape)),
    factors: hasFactors
      ? builder.filled('adapters, factors', (weights) => readFactors(weights, experts, shape))
      : undefined,
  };
}

/** Adds to a product what adapters make of the same input. */
export function addAdditions(
  builder: Builder,
  { shape, down, up, factors }: Additions,
  { buffer, stride, offset = 0, scale = 1 }: ProductOutput,
  rows: AdditionRows,
): void {
  const { step } = builder.scratchPlan;
  const choices = typeof rows === 'object' ? rows.choices : 1;
  const values = builder.scratch('input values', shape.inputs);
  const brought = builder.scratch('adapter ranks', choices * shape.values);
  const chosen = typeof rows === 'object' ? [builder.scratch('chosen experts', 2 * choices)] : [];
  const hasFactors = factors !== undefined;
  const outer = { ...shape, outputOffset: offset, outputStride: stride, scale, hasFactors };
  const buffers = [step, brought, up, buffer, ...(hasFactors ? [factors] : []), ...chosen];
  const count = ({ adapted, wanted }: StepCounts) => {
    if (rows === 'wanted') return adapted === 0 ? 0 : wanted;
    return adapted * choices;
  };
  builder.add(
    'adapters, down',
    () => bringDownKernel(shape, rows),
    [step, values, down, brought, ...chosen],
    (counts) => [shape.values, count(counts)],
  );
  builder.add(
    'adapters, up',
    () => expandKernel(outer, rows),
    buffers,
    (counts) => [Math.ceil(shape.outputs / EXPANDED_VALUES), count(counts)],
  );
}

/** Adds to embeddings, which are scaled, what adapters make of tokens. */
export function addToEmbeddings(builder: Builder, buffer: DeclaredBuffer): void {
  const { embeddingAdditions: all = [], vocabSize, hiddenSize, embeddingScale: scale } = builder.spec;
  if (all.length === 0) return;
  const rank = Math.max(...all.map((addition) => addition.rank));
  const adapters = Math.max(...all.map(({ adapter }) => adapter)) + 1;
  const shape = { inputs: 0, outputs: hiddenSize, adapters, members: 1, values: rank, rank, starts: [0] };
  const outer = { ...shape, outputOffset: 0, outputStride: hiddenSize, scale, hasFactors: false };
  // [adapter][token][rank], and [adapter][rank][output] with their scales.
  const table = builder.filled('adapters, embeddings', (weights) => {
    refuseTooLarge(adapters * rank * Math.max(vocabSize, hiddenSize), builder.limits.bindingBytes);
    return readTokenTable(weights, builder.spec, rank, adapters);
  });
  const up = builder.filled('adapters, up', (weights) => {
    const into = new Float32Array(adapters * rank * hiddenSize);
    for (const { up: linear, ...addition } of all) {
      const place = { place: addition.adapter, rank, outputs: hiddenSize, start: 0 };
      turnUp(weights, { ...addition, up: linear.weight }, into, place);
    }
    return into;
  });
  const { step } = builder.scratchPlan;
  const brought = builder.scratch('adapter ranks', rank);
  builder.add(
    'adapters, tokens',
    () => tokenValuesKernel(shape, vocabSize),
    [step, table, brought],
    ({ adapted }) => [Math.ceil(rank / TOKEN_VALUES), adapted],
  );
  builder.add(
    'adapters, up',
    () => expandKernel(outer, 'rows'),
    [step, brought, up, buffer],
    ({ adapted }) => [Math.ceil(hiddenSize / EXPANDED_VALUES), adapted],
  );
}

function readTokenTable(
  weights: WeightSource,
  { embeddingAdditions: all = [], vocabSize }: ModelSpec,
  rank: number,
  adapters: number,
): Float32Array<ArrayBuffer> {
  const table = new Float32Array(adapters * vocabSize * rank);
  for (const addition of all) {
    const stored = readRows(weights, addition.table, addition.rank);
    for (let token = 0; token < vocabSize; token++) {
      const own = stored.subarray(token * addition.rank, (token + 1) * addition.rank);
      table.set(own, (addition.adapter * vocabSize + token) * rank);
    }
  }
  return table;
}

function refuseTooLarge(floats: number, bindingBytes: number): void {
  if (4 * floats <= bindingBytes) return;
  throw new GpuMemoryError(
    `what adapters add in one place takes ${Math.ceil((4 * floats) / 2 ** 20)} MiB, more than this GPU can bind (${Math.floor(bindingBytes / 2 ** 20)}); load fewer adapters, or use --backend cpu`,
  );
}

function readDown(
  weights: WeightSource,
  experts: Maps,
  { adapters, members, values, rank, inputs }: AdditionsShape,
): Float32Array<ArrayBuffer> {
  const down = new Float32Array(adapters * members * values * inputs);
  for (const [member, maps] of experts.entries()) {
    for (const [at, { additions = [] }] of maps.entries()) {
      for (const { adapter, down: slice } of additions) {
        const place = (adapter * members + member) * values + at * rank;
        down.set(readRows(weights, slice, inputs), place * inputs);
      }
    }
  }
  return down;
}

function readUp(
  weights: WeightSource,
  experts: Maps,
  { adapters, members, rank, outputs, starts }: AdditionsShape,
): Float32Array<ArrayBuffer> {
  const up = new Float32Array(adapters * members * rank * outputs);
  for (const [member, maps] of experts.entries()) {
    for (const [at, { additions = [] }] of maps.entries()) {
      for (const addition of additions) {
        const place = addition.adapter * members + member;
        turnUp(weights, addition, up, { place, rank, outputs, start: starts[at] as number });
      }
    }
  }
  return up;
}

function readFactors(
  weights: WeightSource,
  experts: Maps,
  { adapters, members, outputs, starts }: AdditionsShape,
): Float32Array<ArrayBuffer> {
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
  return all;
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
