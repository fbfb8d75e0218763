// What LoRA adapters add to a product: a row times `down` gives a few values, those times `up` are added. Rows of different
// adapters are computed together; those of none are left as they are.

import { softCap } from './activation.ts';
import { paddedValues } from './linear-input.ts';
import { stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

const SUM_THREADS = 64;
/** Values of a row whose tokens adapters know, a workgroup. */
export const TOKEN_VALUES = SUM_THREADS;
export const EXPANDED_VALUES = 256;

/** Rows of a product that adapters add to: a step's, those that are wanted, or one for each choice of an expert by a row. */
export type AdditionRows =
  | 'rows'
  | 'wanted'
  | {
      readonly choices: number;
      /** All choices of a row read the same input. */
      readonly sharesInput: boolean;
    };

/** How many rows there are; of one of them, its row of the step, its input, and the expert that it goes to. */
function rowReader(rows: AdditionRows) {
  if (rows === 'rows') return { count: 'rowCount()', stepRow: 'row', input: 'row', member: '0u' };
  if (rows === 'wanted') {
    return { count: 'wantedCount()', stepRow: 'wantedRow(row)', input: 'row', member: '0u' };
  }
  const stepRow = `(row / ${rows.choices}u)`;
  return {
    count: `rowCount() * ${rows.choices}u`,
    stepRow,
    input: rows.sharesInput ? stepRow : 'row',
    member: 'choices[row].x',
  };
}

/** Whether a row's adapter, counted from 1, has values in buffers that hold those of the first `adapters`. */
const adds = (adapters: number): string => `(adapter > 0u && adapter <= ${adapters}u)`;

const choicesText = (rows: AdditionRows, binding: number): string =>
  typeof rows === 'object'
    ? `@group(0) @binding(${binding}) var<storage, read> choices: array<vec2<u32>>;`
    : '';

/** All that adapters add to maps which read one input and write side by side. */
export interface AdditionsShape {
  readonly inputs: number;
  readonly outputs: number;
  /** One more than the last adapter that adds to these maps: rows of later ones are left as they are. */
  readonly adapters: number;
  /** Experts that have matrices of their own; 1 where there are none. */
  readonly members: number;
  /** Values that a row is brought to: those of one map after those of another. */
  readonly values: number;
  /** Of all maps and adapters; smaller ones are filled up with zeros. */
  readonly rank: number;
  /** Where the outputs of each map start. */
  readonly starts: readonly number[];
}

/** Bindings: step, input values, down, brought values, choices of experts. A workgroup makes one value of one row. */
export function bringDownKernel(
  { inputs, values, adapters, members }: AdditionsShape,
  rows: AdditionRows,
): string {
  const { count, stepRow, input, member } = rowReader(rows);
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> given: array<f32>;
@group(0) @binding(2) var<storage, read> down: array<f32>;
@group(0) @binding(3) var<storage, read_write> brought: array<f32>;
${choicesText(rows, 4)}
${rowSum(SUM_THREADS)}
@compute @workgroup_size(${SUM_THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  if (row >= ${count}) { return; }
  let adapter = rowAdapter(${stepRow});
  let own = ((max(adapter, 1u) - 1u) * ${members}u + ${member}) * ${values}u + workgroup.x;
  let start = ${input} * ${paddedValues(inputs)}u;
  var total = 0.0;
  if ${adds(adapters)} {
    for (var i = thread; i < ${inputs}u; i += ${SUM_THREADS}u) {
      total = fma(down[own * ${inputs}u + i], given[start + i], total);
    }
  }
  let sum = rowSum(total, thread);
  if (thread == 0u) { brought[row * ${values}u + workgroup.x] = sum; }
}
`;
}

/** Bindings: step, a table of `rank` values for each token of each of `adapters` adapters, brought values. A thread takes one of a row. */
export function tokenValuesKernel({ rank, adapters }: AdditionsShape, tokens: number): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> table: array<f32>;
@group(0) @binding(2) var<storage, read_write> brought: array<f32>;
@compute @workgroup_size(${SUM_THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  let k = workgroup.x * ${SUM_THREADS}u + thread;
  if (row >= rowCount() || k >= ${rank}u) { return; }
  let adapter = rowAdapter(row);
  if !${adds(adapters)} { return; }
  brought[row * ${rank}u + k] = table[((adapter - 1u) * ${tokens}u + rowToken(row)) * ${rank}u + k];
}
`;
}

/**
 * Bindings: step, logits, the cap. Workgroups take some of a row each. The cap is read, as a product's kernel reads its own:
 * compilers divide by constants otherwise, with other bits.
 */
export function capKernel(outputs: number): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read_write> logits: array<f32>;
@group(0) @binding(2) var<storage, read> cap: array<f32>;
${softCap}
@compute @workgroup_size(${EXPANDED_VALUES})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let i = workgroup.x * ${EXPANDED_VALUES}u + thread;
  if (workgroup.y >= wantedCount() || i >= ${outputs}u) { return; }
  let at = workgroup.y * ${outputs}u + i;
  logits[at] = capped(logits[at], cap[0]);
}
`;
}

interface ExpandShape extends AdditionsShape {
  readonly outputOffset: number;
  readonly outputStride: number;
  readonly scale: number;
  /** The sum is multiplied and shifted, output by output. */
  readonly hasFactors: boolean;
}

/**
 * Bindings: step, brought values, up, output, factors where it has them (for each adapter first those of all outputs, then
 * what is added), and choices of experts. Workgroups take some outputs of a row each.
 */
export function expandKernel(shape: ExpandShape, rows: AdditionRows): string {
  const { count, stepRow, member } = rowReader(rows);
  const { outputs, adapters, members, values, rank, starts } = shape;
  const { outputOffset, outputStride, scale, hasFactors } = shape;
  const factors = '@group(0) @binding(4) var<storage, read> factors: array<f32>;';
  const scaled = /* wgsl */ `
  let own = member * ${2 * outputs}u + i;
  output[at] = output[at] * factors[own] + ${scale === 1 ? '' : `${scale} * `}factors[own + ${outputs}u];`;
  const later = starts
    .slice(1)
    .map((start, index) => `first = select(first, ${(index + 1) * rank}u, i >= ${start}u);`);
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> brought: array<f32>;
@group(0) @binding(2) var<storage, read> up: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;
${hasFactors ? factors : ''}
${choicesText(rows, hasFactors ? 5 : 4)}
@compute @workgroup_size(${EXPANDED_VALUES})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  let i = workgroup.x * ${EXPANDED_VALUES}u + thread;
  if (row >= ${count} || i >= ${outputs}u) { return; }
  let adapter = rowAdapter(${stepRow});
  if !${adds(adapters)} { return; }
  let member = (adapter - 1u) * ${members}u + ${member};
  var first = 0u;
  ${later.join('\n  ')}
  var sum = 0.0;
  for (var k = 0u; k < ${rank}u; k++) {
    sum = fma(up[(member * ${rank}u + k) * ${outputs}u + i], brought[row * ${values}u + first + k], sum);
  }
  let at = row * ${outputStride}u + ${outputOffset}u + i;
  output[at] += ${scale === 1 ? 'sum' : `sum * ${scale}`};${hasFactors ? scaled : ''}
}
`;
}
