// Rows of a tower's view: changed in place, joined by what was made for them, gathered from others, and added to by rows of
// tables. One workgroup a row.

import type { TowerActivation } from '../../../../model/vision/vision-spec.ts';
import { activationText } from '../activation.ts';
import { type NormShape, normed, normStats } from '../norm.ts';
import { finite, rowSum } from '../wgsl.ts';
import { pieceReader } from './piece-layout.ts';

const THREADS = 64;

export interface TowerNorm {
  readonly shape: NormShape;
  readonly epsilon: number;
}

export type RowChange =
  | { readonly kind: 'norm'; readonly norm: TowerNorm }
  | { readonly kind: 'activation'; readonly activation: TowerActivation }
  | { readonly kind: 'affine'; readonly factor: number; readonly shift: number }
  | { readonly kind: 'standardize' };

const eachValue = (size: number | string, body: string): string => /* wgsl */ `
  for (var i = thread; i < ${typeof size === 'number' ? `${size}u` : size}; i += ${THREADS}u) { ${body} }`;

const main = (body: string): string => /* wgsl */ `
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  if (row >= rowCount()) { return; }
${body}
}
`;

function statsOf({ shape, epsilon }: TowerNorm, size: number, value: string): string {
  const stats = { name: 'rowStats', parameters: 'base: u32', kind: shape.kind, value };
  return rowSum(THREADS) + normStats({ ...stats, size, epsilon, threads: THREADS });
}

/**
 * Rows of some size, or of the size that the piece says. Bindings: step, view, vectors (of a norm with weights; shifts and then
 * scales).
 */
export function changeRowsKernel(change: RowChange, size = 0): string {
  const norm = change.kind === 'norm' ? change.norm : undefined;
  const isWeighted = change.kind === 'standardize' || norm?.shape.weight || norm?.shape.bias;
  const value = 'view[base + i]';
  const made = {
    norm: () => normed(norm?.shape as NormShape, value, 'i', `${norm?.shape.weight ? size : 0}u + i`),
    activation: () => `activate(${value})`,
    affine: () =>
      change.kind === 'affine' ? `fma(${value}, ${finite(change.factor)}, ${finite(change.shift)})` : '',
    standardize: () => `(${value} - norm[i]) * norm[${size}u + i]`,
  }[change.kind]();
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read_write> view: array<f32>;
${isWeighted ? '@group(0) @binding(2) var<storage, read> norm: array<f32>;' : ''}
${change.kind === 'activation' ? activationText(change.activation) : ''}
${norm === undefined ? '' : statsOf(norm, size, value)}
${main(`  let size = ${size === 0 ? 'sourceSize()' : `${size}u`};
  let base = targetAt() + (firstRow() + row) * size;
  ${norm === undefined ? '' : 'let stats = rowStats(base, thread);'}
${eachValue('size', `${value} = ${made};`)}`)}`;
}

export interface JoinRowsShape {
  readonly size: number;
  readonly norm: TowerNorm | undefined;
  /** A factor on each value. */
  readonly scales: boolean;
  readonly adds: boolean;
  /** Rows are those of the order of groups: see `attendViewKernel`. */
  readonly ordered: boolean;
}

/** Bindings: step, source, view, lists (ordered alone), vectors (weights of the norm, then scales, where there are any). */
export function joinRowsKernel({ size, norm, scales, adds, ordered }: JoinRowsShape): string {
  const { weight = false, bias = false } = norm?.shape ?? {};
  const value = 'source[base + i]';
  const biasAt = weight ? size : 0;
  const made = norm === undefined ? value : normed(norm.shape, value, 'i', `${biasAt}u + i`);
  const scaled = scales ? `(${made}) * norm[${biasAt + (bias ? size : 0)}u + i]` : made;
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read_write> view: array<f32>;
${ordered ? '@group(0) @binding(3) var<storage, read> lists: array<u32>;' : ''}
${weight || bias || scales ? '@group(0) @binding(4) var<storage, read> norm: array<f32>;' : ''}
${norm === undefined ? '' : statsOf(norm, size, value)}
${main(`  let base = row * ${size}u;
  let joined = ${ordered ? 'lists[listAt(0u) + firstRow() + row]' : 'firstRow() + row'};
  let into = targetAt() + joined * ${size}u;
  ${norm === undefined ? '' : 'let stats = rowStats(base, thread);'}
${eachValue(size, `view[into + i] = ${adds ? `view[into + i] + ${scaled}` : scaled};`)}`)}`;
}

/** Holds values of rows within bounds. Bindings: step, rows. */
export function boundKernel(
  { size, stride, offset }: { readonly size: number; readonly stride: number; readonly offset: number },
  [least, most]: readonly [number, number],
): string {
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read_write> held: array<f32>;
${main(`  let base = row * ${stride}u + ${offset}u;
${eachValue(size, `held[base + i] = clamp(held[base + i], ${finite(least)}, ${finite(most)});`)}`)}`;
}

/** Bindings: step, view, lists, the token that stands where a source is none. */
export function gatherRowsKernel(by: 'cells' | 'channels' | 'mean'): string {
  const member = by === 'cells' ? 'i / size' : 'i % members';
  const channel = by === 'cells' ? 'i % size' : 'i / members';
  const made =
    by === 'mean'
      ? /* wgsl */ `var sum = 0.0;
    for (var m = 0u; m < members; m++) { sum += valueOf(sources + m, i, size); }
    view[into + i] = sum / f32(members);`
      : `view[into + i] = valueOf(sources + ${member}, ${channel}, size);`;
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read_write> view: array<f32>;
@group(0) @binding(2) var<storage, read> lists: array<u32>;
@group(0) @binding(3) var<storage, read> token: array<f32>;
fn valueOf(at: u32, channel: u32, size: u32) -> f32 {
  let row = lists[at];
  if (row == 0xffffffffu) { return token[channel]; }
  return view[sourceAt() + row * size + channel];
}
${main(`  let size = sourceSize();
  let members = memberCount();
  let whole = ${by === 'mean' ? 'size' : 'size * members'};
  let sources = listAt(0u) + (firstRow() + row) * members;
  let into = targetAt() + (firstRow() + row) * whole;
  for (var i = thread; i < whole; i += ${THREADS}u) { ${made} }`)}`;
}

/** Adds rows of a table with weights. Bindings: step, view, lists (where taps of rows start, their rows, their weights), table. */
export function addTapsKernel(size: number): string {
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read_write> view: array<f32>;
@group(0) @binding(2) var<storage, read> lists: array<u32>;
@group(0) @binding(3) var<storage, read> table: array<f32>;
${main(`  let first = lists[listAt(0u) + firstRow() + row];
  let end = lists[listAt(0u) + firstRow() + row + 1u];
  let base = targetAt() + (firstRow() + row) * ${size}u;
${eachValue(
  size,
  /* wgsl */ `var sum = 0.0;
    for (var tap = first; tap < end; tap++) {
      sum = fma(bitcast<f32>(lists[listAt(2u) + tap]), table[lists[listAt(1u) + tap] * ${size}u + i], sum);
    }
    view[base + i] += sum;`,
)}`)}`;
}
