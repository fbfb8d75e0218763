// A branch whose output is normalized before it joins the residual stream; one workgroup a row.

import { rowSum } from './row-sum.ts';
import { stepReader } from './step-layout.ts';

export interface BranchShape {
  readonly size: number;
  readonly epsilon: number;
}

const THREADS = 256;

/** Bindings: step, branch, norm weights, residual. */
export function addBranchKernel({ size, epsilon }: BranchShape): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> branch: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> residual: array<f32>;
${rowSum(THREADS)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (workgroup.x >= rowCount()) { return; }
  let base = workgroup.x * ${size}u;
  var sum = 0.0;
  for (var i = thread; i < ${size}u; i += ${THREADS}u) { sum = fma(branch[base + i], branch[base + i], sum); }
  let factor = 1.0 / sqrt(rowSum(sum, thread) / ${size}.0 + ${epsilon});
  for (var i = thread; i < ${size}u; i += ${THREADS}u) { residual[base + i] += branch[base + i] * factor * weight[i]; }
}
`;
}
