// What the experts of a row give together: one choice after the other.

import { stepReader } from './step-layout.ts';

interface CombineShape {
  readonly size: number;
  /** Choices of a row. */
  readonly choices: number;
  /** Whether each counts by its factor; they do not where that was on what experts read. */
  readonly weighted: boolean;
  readonly scale: number;
  /** Adds to what is there instead of replacing it. */
  readonly adds: boolean;
}

export const COMBINED_VALUES = 256;

/** Bindings: step, what experts give, choices (expert, factor), output. Workgroups take some values of a row each. */
export function combineExpertsKernel({ size, choices, weighted, scale, adds }: CombineShape): string {
  const sum = scale === 1 ? 'sum' : `sum * ${scale}`;
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> given: array<f32>;
${weighted ? '@group(0) @binding(2) var<storage, read> choices: array<vec2<u32>>;' : ''}
@group(0) @binding(3) var<storage, read_write> output: array<f32>;
@compute @workgroup_size(${COMBINED_VALUES})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  let i = workgroup.x * ${COMBINED_VALUES}u + thread;
  if (row >= rowCount() || i >= ${size}u) { return; }
  var sum = 0.0;
  for (var choice = row * ${choices}u; choice < (row + 1u) * ${choices}u; choice++) {
    sum = fma(${weighted ? 'bitcast<f32>(choices[choice].y)' : '1.0'}, given[choice * ${size}u + i], sum);
  }
  output[row * ${size}u + i] ${adds ? '+=' : '='} ${sum};
}
`;
}
