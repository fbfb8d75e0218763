// Features of images take the place of embeddings, or are added to the residual stream. One workgroup a feature.

import { placeReader, stepReader } from './step-layout.ts';

const THREADS = 64;

interface ImageRowsShape {
  readonly size: number;
  /** Which of a tower's outputs; each has all rows of the step's images. */
  readonly output: number;
  readonly adds: boolean;
}

/** Bindings: step, features, rows of the residual stream. */
export function imageRowsKernel({ size, output, adds }: ImageRowsShape): string {
  return /* wgsl */ `
${stepReader(0)}${placeReader}
@group(0) @binding(1) var<storage, read> features: array<f32>;
@group(0) @binding(2) var<storage, read_write> residual: array<f32>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let source = (${output}u * featureCount() + workgroup.x) * ${size}u;
  let into = featureRow(workgroup.x) * ${size}u;
  for (var i = thread; i < ${size}u; i += ${THREADS}u) { residual[into + i] ${adds ? '+=' : '='} features[source + i]; }
}
`;
}
