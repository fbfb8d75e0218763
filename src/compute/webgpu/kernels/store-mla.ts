// MLA's KV store and the rotated part of its queries: a workgroup takes one query of a row or, after them, what is stored:
// the normalized latent, and the rotated key that heads share.

import type { KvLayout } from './kv-layout.ts';
import { type NormShape, normed, normStats } from './norm.ts';
import { storeHeads, turning } from './rope.ts';
import { stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

interface MlaShape {
  readonly headCount: number;
  readonly rank: number;
  readonly qkRopeHeadDim: number;
  /** Values of a row that is read, and where latent, key and rotated queries start there. */
  readonly stride: number;
  readonly latentAt: number;
  readonly keyAt: number;
  readonly queriesAt: number;
  readonly norm: NormShape;
  readonly epsilon: number;
  readonly layout: KvLayout;
}

const THREADS = 64;

/** Bindings: step, projections, queries, KV, rope table, norm (where it has weights). */
export function storeMlaKernel(shape: MlaShape): string {
  const { headCount, rank, qkRopeHeadDim, stride, norm, epsilon, layout } = shape;
  const size = rank + qkRopeHeadDim;
  const stats = { name: 'latentStats', parameters: 'base: u32', value: 'made[base + i]' };
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read_write> queries: array<f32>;
@group(0) @binding(3) var<storage, read_write> kv: array<u32>;
@group(0) @binding(4) var<storage, read> turns: array<vec2<f32>>;
${norm.weight || norm.bias ? '@group(0) @binding(5) var<storage, read> norm: array<f32>;' : ''}
var<workgroup> head: array<f32, ${4 * Math.ceil(size / 4)}>;
${rowSum(THREADS)}
${normStats({ ...stats, kind: norm.kind, size: rank, epsilon, threads: THREADS })}
${turning({ half: qkRopeHeadDim / 2, headSize: qkRopeHeadDim })}
${storeHeads(layout)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.y;
  if (row >= rowCount()) { return; }
  let position = rowPosition(row);
  let base = row * ${stride}u;
  if (group.x < ${headCount}u) {
    let own = base + ${shape.queriesAt}u + group.x * ${qkRopeHeadDim}u;
    let into = (row * ${headCount}u + group.x) * ${size}u + ${rank}u;
    for (var i = thread; i < ${qkRopeHeadDim}u; i += ${THREADS}u) { queries[into + i] = turnedAt(own, i, position); }
    return;
  }
  let latent = base + ${shape.latentAt}u;
  let stats = latentStats(latent, thread);
  for (var i = thread; i < ${rank}u; i += ${THREADS}u) {
    head[i] = ${normed(norm, 'made[latent + i]', 'i', `${norm.weight ? rank : 0}u + i`)};
  }
  for (var i = thread; i < ${qkRopeHeadDim}u; i += ${THREADS}u) {
    head[${rank}u + i] = turnedAt(base + ${shape.keyAt}u, i, position);
  }
  workgroupBarrier();
  let slot = rowSlot(row);
  let block = (slot / 32u) * ${layout.blockWords}u;
  storeKey(block, slot % 32u, thread);
  // Both search for the largest value in the same place.
  workgroupBarrier();
  storeValue(block, slot % 32u, thread);
}
`;
}
