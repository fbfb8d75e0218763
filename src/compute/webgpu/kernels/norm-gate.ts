// Runs of values normalized in place, and multiplied by the silu of gates where there are any: before the norm, or behind it. One workgroup a run.

import { activationText } from './activation.ts';
import { type NormShape, normed, normStats } from './norm.ts';
import { rowSum } from './row-sum.ts';
import { stepReader } from './step-layout.ts';

export interface NormGateShape {
  /** Runs of a row, and values of a run. */
  readonly runs: number;
  readonly size: number;
  readonly norm: NormShape;
  readonly epsilon: number;
  readonly gates?: {
    readonly apply: 'before' | 'behind';
    /** Values of a row that has them, and where they start. */
    readonly stride: number;
    readonly offset: number;
  };
}

/** Bindings: step, values, gates (where there are any), norm (where it has weights). */
export function normGateKernel({ runs, size, norm, epsilon, gates }: NormGateShape): string {
  const threads = size > 256 ? 256 : 64;
  const gate = 'activate(gates[gate + i])';
  const value = gates?.apply === 'before' ? `values[base + i] * ${gate}` : 'values[base + i]';
  const made = normed(norm, `(${value})`, 'i', `${norm.weight ? size : 0}u + i`);
  const stats = { name: 'runStats', parameters: 'base: u32, gate: u32', kind: norm.kind, value };
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read_write> values: array<f32>;
${gates === undefined ? '' : '@group(0) @binding(2) var<storage, read> gates: array<f32>;'}
${norm.weight || norm.bias ? '@group(0) @binding(3) var<storage, read> norm: array<f32>;' : ''}
${gates === undefined ? '' : activationText('silu')}
${rowSum(threads)}${normStats({ ...stats, size, epsilon, threads })}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  if (row >= rowCount()) { return; }
  let base = (row * ${runs}u + workgroup.x) * ${size}u;
  let gate = row * ${gates?.stride ?? 0}u + ${gates?.offset ?? 0}u + workgroup.x * ${size}u;
  let stats = runStats(base, gate, thread);
  for (var i = thread; i < ${size}u; i += ${threads}u) {
    values[base + i] = ${gates?.apply === 'behind' ? `(${made}) * ${gate}` : made};
  }
}
`;
}
