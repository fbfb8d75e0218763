// Rows made input of a linear: as they are, normalized, or gated; as codes of one byte with a scale for each group of
// 32, and as floats where a matrix of floats reads them. A workgroup takes 1024 values of a row, four a thread; where
// the row's norm is needed, each finds it for itself. Codes lie as matrix units read them: the same group of 32 rows
// side by side.

import type { Activation } from '../../../model/spec.ts';
import { rowSum } from './row-sum.ts';
import { stepReader } from './step-layout.ts';

export interface InputShape {
  readonly source: 'plain' | 'norm' | 'gated';
  readonly size: number;
  /** From one row of the source to the next. */
  readonly stride: number;
  /** Gated: where the second factor starts in a row. */
  readonly upOffset: number;
  readonly activation: Activation;
  readonly epsilon: number;
  /** Which rows it takes, side by side: all, those whose logits are wanted, or those whose states are. */
  readonly rows: keyof typeof rowReaders;
  readonly codes: boolean;
  readonly values: boolean;
}

const rowReaders = {
  all: { count: 'rowCount()', row: 'row' },
  wanted: { count: 'wantedCount()', row: 'wantedRow(row)' },
  states: { count: 'stateCount()', row: 'stateRow(row)' },
} as const;

const THREADS = 256;
/** Rows whose groups lie side by side: block of rows, then group, then row. */
export const INPUT_ROWS = 32;
/** Values of a row that a workgroup takes. */
export const INPUT_VALUES = 4 * THREADS;

/** Bindings: step, source, norm weights (norm alone), codes and sides (where made), values (where made). */
export function makeInputKernel(shape: InputShape): string {
  let binding = 1;
  const declare = (access: 'read' | 'read_write', name: string, type: string): string =>
    `@group(0) @binding(${binding++}) var<storage, ${access}> ${name}: ${type};\n`;
  const buffers = [
    declare('read', 'source', 'array<f32>'),
    ...(shape.source === 'norm' ? [declare('read', 'weight', 'array<f32>')] : []),
    ...(shape.codes ? [declare('read_write', 'codes', 'array<u32>')] : []),
    ...(shape.codes ? [declare('read_write', 'sides', 'array<vec2<u32>>')] : []),
    ...(shape.values ? [declare('read_write', 'values', 'array<f32>')] : []),
  ];
  const reader = rowReaders[shape.rows];
  return /* wgsl */ `
${stepReader(0)}
${buffers.join('')}
${shape.source === 'gated' ? activate(shape.activation) : ''}
${shape.source === 'norm' ? normFactor(shape) : ''}
fn valueAt(base: u32, input: u32, factor: f32) -> f32 {
  if (input >= ${shape.size}u) { return 0.0; }
  return ${valueText(shape)};
}
${shape.codes ? quantize(Math.ceil(shape.size / 32)) : ''}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  if (row >= ${reader.count}) { return; }
  let base = ${reader.row} * ${shape.stride}u;
  let factor = ${shape.source === 'norm' ? 'normFactor(base, thread)' : '1.0'};
  let input = workgroup.x * ${INPUT_VALUES}u + thread * 4u;
  let x = vec4<f32>(valueAt(base, input, factor), valueAt(base, input + 1u, factor),
    valueAt(base, input + 2u, factor), valueAt(base, input + 3u, factor));
  ${shape.values ? storeValues(shape.size) : ''}
  ${shape.codes ? 'storeCodes(row, input, x, thread);' : ''}
}
`;
}

function valueText({ source, upOffset }: InputShape): string {
  if (source === 'plain') return 'source[base + input]';
  if (source === 'norm') return 'source[base + input] * factor * weight[input]';
  return `activate(source[base + input]) * source[base + ${upOffset}u + input]`;
}

/** Rows of values are padded to pairs, as matrices of floats are. */
export const paddedValues = (size: number): number => 2 * Math.ceil(size / 2);

function storeValues(size: number): string {
  const padded = paddedValues(size);
  return `for (var i = 0u; i < 4u; i++) {
    if (input + i < ${padded}u) { values[row * ${padded}u + input + i] = x[i]; }
  }`;
}

/** Exponentials and tangents are kept from overflowing: what some adapters make of infinities is no number. */
function activate(activation: Activation): string {
  return activation === 'silu'
    ? 'fn activate(x: f32) -> f32 { return x / (1.0 + exp(min(-x, 80.0))); }'
    : `fn activate(x: f32) -> f32 {
  return 0.5 * x * (1.0 + tanh(clamp(0.7978845608 * (x + 0.044715 * x * x * x), -15.0, 15.0)));
}`;
}

function normFactor({ size, epsilon }: InputShape): string {
  return /* wgsl */ `
${rowSum(THREADS)}
fn normFactor(base: u32, thread: u32) -> f32 {
  var sum = 0.0;
  for (var input = thread; input < ${size}u; input += ${THREADS}u) {
    let x = source[base + input];
    sum = fma(x, x, sum);
  }
  return 1.0 / sqrt(rowSum(sum, thread) / ${size}.0 + ${epsilon});
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
