// Queries, keys and values of a tower's rows: heads are normalized where the model does so, queries and keys are turned, and all
// are put where attention reads them. One workgroup takes one head of one row; the heads of a row are its queries, its keys,
// its values.

import { type NormShape, normed, normStats } from '../norm.ts';
import { rowSum } from '../wgsl.ts';
import { pieceReader } from './piece-layout.ts';

const THREADS = 64;

/** The norm of queries, keys or values: over each head, or over all of them together. */
export interface PartNorm {
  readonly shape: NormShape;
  readonly overAll: boolean;
  /** Where its weights start in the buffer of all norms, and its biases. */
  readonly weightAt: number;
  readonly biasAt: number;
}

export interface PlaceHeadsShape {
  readonly headCount: number;
  readonly headSize: number;
  readonly epsilon: number;
  /** Of queries, keys and values. */
  readonly norms: readonly (PartNorm | undefined)[];
  /** Pairs of a rope; 0: there is none. */
  readonly pairs: number;
}

/** A value that is the first of its pair, and one that is the second. */
const [FIRST, SECOND] = [1, 2];

/** For each value of a head the other of its pair, the pair, and which of both it is: 0 where it is not turned. */
export function pairTable(
  headSize: number,
  pairs: readonly { readonly first: number; readonly second: number }[],
): Uint32Array<ArrayBuffer> {
  const table = new Uint32Array(4 * headSize);
  for (const [pair, { first, second }] of pairs.entries()) {
    table.set([second, pair, FIRST], 4 * first);
    table.set([first, pair, SECOND], 4 * second);
  }
  return table;
}

/** Bindings: step, projections, view, lists and pairs (where turned), norms (where weighted). */
export function placeHeadsKernel(shape: PlaceHeadsShape): string {
  const { headCount, headSize, norms, pairs } = shape;
  const width = headCount * headSize;
  const isWeighted = norms.some((norm) => norm?.shape.weight || norm?.shape.bias);
  const hasNorm = norms.some((norm) => norm !== undefined);
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read_write> view: array<f32>;
${pairs === 0 ? '' : '@group(0) @binding(3) var<storage, read> lists: array<u32>;'}
${pairs === 0 ? '' : '@group(0) @binding(4) var<storage, read> partners: array<vec4<u32>>;'}
${isWeighted ? '@group(0) @binding(5) var<storage, read> norm: array<f32>;' : ''}
var<workgroup> head: array<f32, ${headSize}>;
${hasNorm ? rowSum(THREADS) : ''}
${norms.map((norm, part) => (norm === undefined ? '' : normalizing(shape, norm, part))).join('')}
${pairs === 0 ? '' : turning(pairs)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.y;
  if (row >= rowCount()) { return; }
  let part = group.x / ${headCount}u;
  let index = group.x % ${headCount}u;
  let base = row * ${3 * width}u + part * ${width}u;
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) { head[i] = made[base + index * ${headSize}u + i]; }
  workgroupBarrier();
${norms.map((norm, part) => (norm === undefined ? '' : `  if (part == ${part}u) { normalize${part}(base, index, thread); }\n`)).join('')}
  let into = headsAt(part) + (firstRow() + row) * ${width}u + index * ${headSize}u;
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) {
    view[into + i] = ${pairs === 0 ? 'head[i]' : 'select(turned(row, i), head[i], part == 2u)'};
  }
}
`;
}

function normalizing(
  { headCount, headSize, epsilon }: PlaceHeadsShape,
  { shape, overAll, weightAt, biasAt }: PartNorm,
  part: number,
): string {
  const stats = normStats({
    name: `stats${part}`,
    parameters: 'base: u32',
    kind: shape.kind,
    size: overAll ? headCount * headSize : headSize,
    epsilon,
    threads: THREADS,
    value: overAll ? 'made[base + i]' : 'head[i]',
  });
  const at = (start: number) => `${start}u + ${overAll ? `index * ${headSize}u + ` : ''}i`;
  return /* wgsl */ `${stats}
fn normalize${part}(base: u32, index: u32, thread: u32) {
  let stats = stats${part}(base, thread);
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) {
    head[i] = ${normed(shape, 'head[i]', at(weightAt), at(biasAt))};
  }
  workgroupBarrier();
}`;
}

const turning = (pairs: number): string => /* wgsl */ `
fn turned(row: u32, i: u32) -> f32 {
  let partner = partners[i];
  let at = listAt(1u) + (firstRow() + row) * ${2 * pairs}u + partner.y;
  let cosine = bitcast<f32>(lists[at]);
  let sine = bitcast<f32>(lists[at + ${pairs}u]);
  let other = head[partner.x] * select(sine, -sine, partner.z == ${FIRST}u);
  return select(fma(head[i], cosine, other), head[i], partner.z == 0u);
}
`;
