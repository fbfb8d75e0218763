// The input of a linear map: rows as they are, normalized, activated or gated; quantized to int8 with a scale for each group
// of 32, and as floats where a matrix of floats reads them. A workgroup takes 1024 values of a row, four a thread, and
// computes the row's norm itself. Codes lie as matrix units read them: the same group of 32 rows side by side.

import type { LinearBounds } from '../../../model/leaves.ts';
import type { Activation } from '../../../model/spec.ts';
import type { TowerActivation } from '../../../model/vision/vision-spec.ts';
import { activationText, sigmoid, spoiled } from './activation.ts';
import { type NormShape, normed, normStats } from './norm.ts';
import { stepReader } from './step-layout.ts';
import { pieceWordsReader } from './tower/piece-layout.ts';
import { finite, rowSum } from './wgsl.ts';

export type InputMaking =
  /** From value `offset` of the row on. */
  | { readonly kind: 'plain'; readonly offset?: number }
  | { readonly kind: 'tanh' }
  | { readonly kind: 'norm'; readonly norm: NormShape; readonly epsilon: number }
  /** As a gate of what starts at `upOffset`, where that is given. */
  | {
      readonly kind: 'activated';
      readonly activation: Activation | TowerActivation;
      readonly upOffset: number | undefined;
    }
  /** Multiplied by the sigmoid of values of another buffer, in rows of `stride`. */
  | { readonly kind: 'gated'; readonly stride: number; readonly offset: number }
  /** Activated, as gate of such values. */
  | {
      readonly kind: 'gating';
      readonly activation: Activation;
      readonly stride: number;
      readonly offset: number;
    };

/** Which rows are taken, side by side. */
export type InputRows =
  /** All, those whose logits are wanted, or those whose states are. */
  | 'all'
  | 'wanted'
  | 'states'
  /** Those of a piece of a tower's view: see tower/piece-layout.ts. */
  | 'view'
  /** One for each expert that each row has chosen. */
  | { readonly choices: number }
  /** The row itself for each of them, by the factor of the choice. */
  | { readonly scaledChoices: number };

interface InputShape {
  readonly making: InputMaking;
  readonly size: number;
  /** From one row of the source to the next. */
  readonly stride: number;
  readonly rows: InputRows;
  readonly codes: boolean;
  readonly values: boolean;
  /** Least and most of what is made. */
  readonly bounds?: LinearBounds['inputs'] | undefined;
}

/** How many rows there are, where the source has one, and where its rows start. */
function rowReader(rows: InputRows): { readonly count: string; readonly row: string; readonly at?: string } {
  if (typeof rows === 'object') {
    return 'choices' in rows
      ? { count: `rowCount() * ${rows.choices}u`, row: 'row' }
      : { count: `rowCount() * ${rows.scaledChoices}u`, row: `(row / ${rows.scaledChoices}u)` };
  }
  return {
    all: { count: 'rowCount()', row: 'row' },
    wanted: { count: 'wantedCount()', row: 'wantedRow(row)' },
    states: { count: 'stateCount()', row: 'stateRow(row)' },
    view: { count: 'rowCount()', row: '(firstRow() + row)', at: 'sourceAt() + ' },
  }[rows];
}

const isScaled = (rows: InputRows): boolean => typeof rows === 'object' && 'scaledChoices' in rows;

const THREADS = 256;
/** Rows whose groups lie side by side: block of rows, then group, then row. */
export const INPUT_ROWS = 32;
/** Values of a row that a workgroup takes. */
export const INPUT_VALUES = 4 * THREADS;

/**
 * Bindings: step, source, norm (where it has weights) or gates, choices (where they scale), codes and sides (where made),
 * values (where made).
 */
export function makeInputKernel(shape: InputShape): string {
  const { making } = shape;
  let binding = 1;
  const declare = (access: 'read' | 'read_write', name: string, type: string): string =>
    `@group(0) @binding(${binding++}) var<storage, ${access}> ${name}: ${type};\n`;
  const hasNorm = making.kind === 'norm' && (making.norm.weight || making.norm.bias);
  const buffers = [
    declare('read', 'source', 'array<f32>'),
    ...(hasNorm ? [declare('read', 'norm', 'array<f32>')] : []),
    ...(making.kind === 'gated' || making.kind === 'gating' ? [declare('read', 'gates', 'array<f32>')] : []),
    ...(isScaled(shape.rows) ? [declare('read', 'choices', 'array<vec2<u32>>')] : []),
    ...(shape.codes ? [declare('read_write', 'codes', 'array<u32>')] : []),
    ...(shape.codes ? [declare('read_write', 'sides', 'array<vec2<u32>>')] : []),
    ...(shape.values ? [declare('read_write', 'values', 'array<f32>')] : []),
  ];
  const reader = rowReader(shape.rows);
  const base = `${reader.at ?? ''}${reader.row} * ${shape.stride}u`;
  return /* wgsl */ `
${stepReader(0)}${shape.rows === 'view' ? pieceWordsReader : ''}
${buffers.join('')}
${helpers(shape)}
fn valueAt(row: u32, input: u32, stats: vec2<f32>) -> f32 {
  if (input >= ${shape.size}u) { return 0.0; }
  let base = ${base};
  return ${boundedText(shape, isScaled(shape.rows) ? `(${valueText(shape)}) * bitcast<f32>(choices[row].y)` : valueText(shape))};
}
${shape.codes ? quantize(Math.ceil(shape.size / 32)) : ''}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  if (row >= ${reader.count}) { return; }
  let stats = ${making.kind === 'norm' ? `rowStats(${base}, thread)` : 'vec2<f32>(0.0)'};
  let input = workgroup.x * ${INPUT_VALUES}u + thread * 4u;
  let x = vec4<f32>(valueAt(row, input, stats), valueAt(row, input + 1u, stats),
    valueAt(row, input + 2u, stats), valueAt(row, input + 3u, stats));
  ${shape.values ? storeValues(shape.size) : ''}
  ${shape.codes ? 'storeCodes(row, input, x, thread);' : ''}
}
`;
}

const boundedText = ({ bounds }: InputShape, value: string): string =>
  bounds === undefined ? value : `clamp(${value}, ${finite(bounds[0])}, ${finite(bounds[1])})`;

function helpers({ making, size }: InputShape): string {
  switch (making.kind) {
    case 'plain':
    case 'tanh':
      return '';
    case 'norm': {
      const { norm, epsilon } = making;
      const shape = {
        name: 'rowStats',
        parameters: 'base: u32',
        value: 'source[base + i]',
        threads: THREADS,
      };
      return rowSum(THREADS) + normStats({ ...shape, kind: norm.kind, size, epsilon });
    }
    case 'activated':
    case 'gating':
      return activationText(making.activation);
    case 'gated':
      return spoiled + sigmoid;
  }
}

function valueText({ making, size }: InputShape): string {
  const own = 'source[base + input]';
  switch (making.kind) {
    case 'plain':
      return making.offset === undefined ? own : `source[base + ${making.offset}u + input]`;
    case 'tanh':
      return `tanh(clamp(${own}, -15.0, 15.0))`;
    case 'norm':
      return normed(making.norm, own, 'input', `${making.norm.weight ? size : 0}u + input`);
    case 'activated': {
      if (making.upOffset === undefined) return `activate(${own})`;
      return gatedBy(making.activation, own, `source[base + ${making.upOffset}u + input]`);
    }
    case 'gated':
      return `${own} * sigmoid(gates[row * ${making.stride}u + ${making.offset}u + input])`;
    case 'gating':
      return gatedBy(making.activation, own, `gates[row * ${making.stride}u + ${making.offset}u + input]`);
  }
}

function gatedBy(activation: Activation | TowerActivation, gate: string, up: string): string {
  return typeof activation === 'string' ? `activate(${gate}) * ${up}` : `activate(${gate}, ${up})`;
}

/** Rows of values are padded to pairs, as matrices of floats are. */
export const paddedValues = (size: number): number => 2 * Math.ceil(size / 2);

function storeValues(size: number): string {
  const padded = paddedValues(size);
  return `for (var i = 0u; i < 4u; i++) {
    if (input + i < ${padded}u) { values[row * ${padded}u + input + i] = x[i]; }
  }`;
}

/**
 * Eight threads share a group. A value that is no number makes the scale none, so that it reaches the logits and is
 * seen there.
 */
function quantize(groups: number): string {
  return /* wgsl */ `
var<workgroup> largest: array<f32, ${THREADS}>;
var<workgroup> sums: array<i32, ${THREADS}>;
fn storeCodes(row: u32, input: u32, x: vec4<f32>, thread: u32) {
  let size = abs(x);
  let poisoned = any((bitcast<vec4<u32>>(x) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
  largest[thread] = select(max(max(size.x, size.y), max(size.z, size.w)), 3.0e38, poisoned);
  workgroupBarrier();
  let first = thread & ~7u;
  var most = 0.0;
  for (var i = 0u; i < 8u; i++) { most = max(most, largest[first + i]); }
  let scale = most / 127.0;
  let inverse = select(0.0, 1.0 / scale, scale > 1e-30);
  let code = vec4<i32>(clamp(round(x * inverse), vec4<f32>(-127.0), vec4<f32>(127.0)));
  sums[thread] = code.x + code.y + code.z + code.w;
  let at = ((row / ${INPUT_ROWS}u) * ${groups}u + input / 32u) * ${INPUT_ROWS}u + row % ${INPUT_ROWS}u;
  let isInside = input < ${32 * groups}u;
  if (isInside) { codes[at * 8u + (thread & 7u)] = pack4xI8(code); }
  workgroupBarrier();
  if (!isInside || (thread & 7u) != 0u) { return; }
  var sum = 0;
  for (var i = 0u; i < 8u; i++) { sum += sums[first + i]; }
  sides[at] = vec2<u32>(select(bitcast<u32>(scale), 0x7fc00000u, most >= 3.0e38), bitcast<u32>(sum));
}`;
}
