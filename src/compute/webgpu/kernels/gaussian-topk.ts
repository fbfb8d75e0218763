// Gates lowered in place by their mean and `cutoff` standard deviations, and 0 where that is below 0: the largest few stay.
// One workgroup a row.

import { spoiled } from './activation.ts';
import { stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

interface CutShape {
  readonly size: number;
  readonly stride: number;
  readonly cutoff: number;
}

const THREADS = 256;

/** Bindings: step, gates. */
export function cutGatesKernel({ size, stride, cutoff }: CutShape): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read_write> gates: array<f32>;
${spoiled}${rowSum(THREADS)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (workgroup.x >= rowCount()) { return; }
  let base = workgroup.x * ${stride}u;
  var total = 0.0;
  for (var i = thread; i < ${size}u; i += ${THREADS}u) { total += gates[base + i]; }
  let mean = rowSum(total, thread) / ${size}.0;
  var squares = 0.0;
  for (var i = thread; i < ${size}u; i += ${THREADS}u) {
    let x = gates[base + i] - mean;
    squares = fma(x, x, squares);
  }
  let limit = fma(sqrt(rowSum(squares, thread) / ${size}.0), ${cutoff}, mean);
  for (var i = thread; i < ${size}u; i += ${THREADS}u) {
    let x = gates[base + i] - limit;
    gates[base + i] = select(max(0.0, x), x, isSpoiled(x));
  }
}
`;
}
