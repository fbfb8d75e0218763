// RMS and layer norms: pieces for other kernels, and a norm in place. Weights and biases, where there are any, lie in one
// buffer, the weights first.

import type { NormSpec } from '../../../model/spec.ts';
import { activationText } from './activation.ts';
import { stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

export interface NormShape {
  readonly kind: NormSpec['kind'];
  readonly weight: boolean;
  readonly bias: boolean;
}

interface StatsShape {
  readonly name: string;
  readonly parameters?: string;
  readonly kind: NormSpec['kind'];
  readonly size: number;
  readonly epsilon: number;
  readonly threads: number;
  readonly value: string;
}

/**
 * Declares a function that gives every thread the mean of a run, where the norm takes it off, and the factor on its
 * values; its last parameter is `thread`. `rowSum` is declared before.
 */
export function normStats(shape: StatsShape): string {
  const { name, parameters, kind, size, threads, value } = shape;
  const sumOf = (term: string): string => `
  for (var i = thread; i < ${size}u; i += ${threads}u) {
    let x = ${value};
    ${term}
  }`;
  const mean = /* wgsl */ `
  var total = 0.0;${sumOf('total += x;')}
  let mean = rowSum(total, thread) / ${size}.0;`;
  return /* wgsl */ `
fn ${name}(${parameters === undefined ? '' : `${parameters}, `}thread: u32) -> vec2<f32> {${kind === 'layer' ? mean : ''}
  var sum = 0.0;${sumOf(kind === 'layer' ? 'sum = fma(x - mean, x - mean, sum);' : 'sum = fma(x, x, sum);')}
  return vec2<f32>(${kind === 'layer' ? 'mean' : '0.0'}, 1.0 / sqrt(rowSum(sum, thread) / ${size}.0 + ${shape.epsilon}));
}`;
}

/** The norm of `x`: `stats` is the result of the function above, the places of weight and bias are indices of `norm`. */
export function normed(
  { kind, weight, bias }: NormShape,
  x: string,
  weightAt: string,
  biasAt: string,
): string {
  const centred = kind === 'layer' ? `(${x} - stats.x)` : x;
  return `${centred} * stats.y${weight ? ` * norm[${weightAt}]` : ''}${bias ? ` + norm[${biasAt}]` : ''}`;
}

export interface NormGateShape {
  /** Runs of a row, and values of a run. */
  readonly runs: number;
  readonly size: number;
  readonly norm: NormShape;
  readonly epsilon: number;
  readonly gates?: {
    readonly apply: 'before' | 'after';
    /** Values of a row that has them, and where they start. */
    readonly stride: number;
    readonly offset: number;
  };
}

/**
 * Runs of values normalized in place, and multiplied by the silu of gates where there are any, before the norm or after it.
 * One workgroup a run. Bindings: step, values, gates (where there are any), norm (where it has weights).
 */
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
    values[base + i] = ${gates?.apply === 'after' ? `(${made}) * ${gate}` : made};
  }
}
`;
}
