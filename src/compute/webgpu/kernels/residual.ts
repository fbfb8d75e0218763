// The output of a part or a branch joins what is there: after a norm, by a factor, or by a gate of each row. One workgroup
// a row.

import { sigmoid, spoiled } from './activation.ts';
import { type NormShape, normed, normStats } from './norm.ts';
import { stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

interface JoinShape {
  readonly size: number;
  readonly epsilon: number;
  readonly norm: NormShape | undefined;
  readonly scale: number;
  readonly adds: boolean;
  readonly sumScale: number | undefined;
  /** The norm is that of the sum, not of what is added. */
  readonly normsSum?: boolean | undefined;
  /** Where each row's gate lies among rows of `stride` values. */
  readonly gate: { readonly stride: number; readonly offset: number } | undefined;
}

const THREADS = 256;

/** Bindings: step, source, target, gates (where there are any), norm (where it has weights). */
export function joinOutputKernel(shape: JoinShape): string {
  const { size, epsilon, norm, scale, adds, sumScale, normsSum, gate } = shape;
  const own = gate === undefined ? 'source[base + i]' : 'source[base + i] * part';
  // All threads have read what is there before any of them writes: sums of a row wait for all.
  const value = normsSum ? `(joined[base + i] + ${scale === 1 ? own : `${own} * ${scale}`})` : own;
  const part = gate === undefined ? '' : ', part: f32';
  const stats =
    norm === undefined
      ? ''
      : `${rowSum(THREADS)}${normStats({ name: 'outputStats', parameters: `base: u32${part}`, kind: norm.kind, size, epsilon, threads: THREADS, value })}`;
  const made = norm === undefined ? value : normed(norm, `(${value})`, 'i', `${norm.weight ? size : 0}u + i`);
  const scaled = scale === 1 || normsSum ? made : `(${made}) * ${scale}`;
  const sum = adds && !normsSum ? `joined[base + i] + ${scaled}` : scaled;
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read_write> joined: array<f32>;
${gate === undefined ? '' : '@group(0) @binding(3) var<storage, read> shares: array<f32>;'}
${norm?.weight || norm?.bias ? '@group(0) @binding(4) var<storage, read> norm: array<f32>;' : ''}
${gate === undefined ? '' : `${spoiled}${sigmoid}`}
${stats}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (workgroup.x >= rowCount()) { return; }
  let base = workgroup.x * ${size}u;
  ${gate === undefined ? '' : `let part = sigmoid(shares[workgroup.x * ${gate.stride}u + ${gate.offset}u]);`}
  ${norm === undefined ? '' : `let stats = outputStats(base${gate === undefined ? '' : ', part'}, thread);`}
  for (var i = thread; i < ${size}u; i += ${THREADS}u) { joined[base + i] = ${sumScale === undefined ? sum : `(${sum}) * ${sumScale}`}; }
}
`;
}
