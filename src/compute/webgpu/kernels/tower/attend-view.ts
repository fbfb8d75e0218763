// Attention between rows of a view that see each other: all of them, or those of one window. A workgroup takes some queries of
// one head, which lie together in the order of groups, and goes through the keys and values of their group a tile at a time.
// Tiles begin at the group's first key and are joined in order, so that a query's bits depend on its group alone.

import { NOTHING } from '../softmax.ts';
import { finite, repeat } from '../wgsl.ts';
import { pieceReader } from './piece-layout.ts';

/** Queries of a workgroup, and lanes that share one. */
export const VIEW_QUERIES = 16;
const LANES = 16;
const THREADS = VIEW_QUERIES * LANES;

export interface AttendViewShape {
  readonly headCount: number;
  readonly headSize: number;
  readonly scale: number;
  /** Keys that are held at a time. */
  readonly keys: number;
}

/** From one row of workgroup memory to the next: an odd number, so that rows fall into different banks. */
const odd = (count: number): number => count + 1 - (count % 2);

/** As many keys at a time as there is room for; none where even few are too many. */
export function viewKeys(headSize: number, workgroupBytes: number): number {
  const bytes = (keys: number) =>
    4 * (VIEW_QUERIES * headSize + keys * odd(headSize) + 2 * VIEW_QUERIES * keys);
  return [32, 16, 8, 4].find((keys) => bytes(keys) <= workgroupBytes) ?? 0;
}

/** Bindings: step, view, lists (the order of groups), output. */
export function attendViewKernel({ headCount, headSize, scale, keys }: AttendViewShape): string {
  const width = headCount * headSize;
  const stride = odd(headSize);
  const places = Math.ceil(headSize / LANES);
  const each = (line: (place: number) => string) => repeat(places, line);
  const place = (index: number) => `min(lane + ${LANES * index}u, ${headSize - 1}u)`;
  const load = (part: number) => /* wgsl */ `
    for (var at = index; at < ${keys * headSize}u; at += ${THREADS}u) {
      let key = lists[listAt(0u) + min(tile + at / ${headSize}u, endKey - 1u)];
      held[at / ${headSize}u * ${stride}u + at % ${headSize}u] = view[headsAt(${part}u) + key * ${width}u + head + at % ${headSize}u];
    }
    workgroupBarrier();`;
  return /* wgsl */ `
${pieceReader(0)}
@group(0) @binding(1) var<storage, read> view: array<f32>;
@group(0) @binding(2) var<storage, read> lists: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;
var<workgroup> asked: array<f32, ${VIEW_QUERIES * headSize}>;
// Keys of a tile, then their values.
var<workgroup> held: array<f32, ${keys * stride}>;
var<workgroup> scores: array<f32, ${VIEW_QUERIES * keys}>;
var<workgroup> weights: array<f32, ${VIEW_QUERIES * keys}>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  let item = itemAt(workgroup.x);
  let first = step[item];
  let count = step[item + 1u];
  let endKey = step[item + 3u];
  let head = workgroup.y * ${headSize}u;
  let query = index / ${LANES}u;
  let lane = index % ${LANES}u;
  for (var at = index; at < ${VIEW_QUERIES * headSize}u; at += ${THREADS}u) {
    let row = lists[listAt(0u) + first + min(at / ${headSize}u, count - 1u)];
    asked[at] = view[headsAt(0u) + row * ${width}u + head + at % ${headSize}u];
  }
  var m = ${NOTHING};
  var l = 0.0;
${each((i) => `  var acc${i} = 0.0;`)}
  for (var tile = step[item + 2u]; tile < endKey; tile += ${keys}u) {
    workgroupBarrier();${load(1)}
    for (var key = lane; key < ${keys}u; key += ${LANES}u) {
      var sum = 0.0;
      for (var i = 0u; i < ${headSize}u; i++) { sum = fma(asked[query * ${headSize}u + i], held[key * ${stride}u + i], sum); }
      scores[query * ${keys}u + key] = select(${NOTHING}, sum * ${finite(scale)}, tile + key < endKey);
    }
    workgroupBarrier();
    var larger = m;
    for (var key = 0u; key < ${keys}u; key++) { larger = max(larger, scores[query * ${keys}u + key]); }
    for (var key = lane; key < ${keys}u; key += ${LANES}u) {
      weights[query * ${keys}u + key] = select(0.0, exp(scores[query * ${keys}u + key] - larger), tile + key < endKey);
    }${load(2)}
    let keep = exp(m - larger);
    m = larger;
    l *= keep;
${each((i) => `    acc${i} *= keep;`)}
    for (var key = 0u; key < ${keys}u; key++) {
      let weight = weights[query * ${keys}u + key];
      l += weight;
${each((i) => `      acc${i} = fma(weight, held[key * ${stride}u + ${place(i)}], acc${i});`)}
    }
  }
  if (query >= count) { return; }
  let inverse = 1.0 / l;
  let into = (first - firstRow() + query) * ${width}u + head;
${each((i) => `  output[into + ${place(i)}] = acc${i} * inverse;`)}
}
`;
}
