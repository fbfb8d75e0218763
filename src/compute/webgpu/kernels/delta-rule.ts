// The recurrence of a gated delta net: see GatedDeltaNetSpec. Queries and keys are L2-normalized before it.

import type { GatedDeltaNetSpec } from '../../../model/spec.ts';
import { sigmoid, softplus, spoiled } from './activation.ts';
import { columnSum, learntText, throughRows } from './recurrence.ts';
import { statesReader, stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

export interface DeltaShape
  extends Pick<GatedDeltaNetSpec, 'keyHeads' | 'keySize' | 'valueHeads' | 'valueSize' | 'sharing'> {
  /** Channels of a row: queries, keys and values. */
  readonly channels: number;
  /** Values of a row of projections, and where shares and decays start there. */
  readonly stride: number;
  readonly sharesAt: number;
  readonly decaysAt: number;
  /** Where the first head's matrix starts in a slot, and values of a slot. */
  readonly learntAt: number;
  readonly slotSize: number;
}

/** Added to the squared length of queries and keys. */
const LENGTH_EPSILON = 1e-6;
const LENGTH_THREADS = 64;

/** Bindings: step, channels. A workgroup takes one head of a row, queries first, then keys. */
export function toLengthKernel({ keyHeads, keySize, channels }: DeltaShape): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read_write> mixed: array<f32>;
${rowSum(LENGTH_THREADS)}
@compute @workgroup_size(${LENGTH_THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (workgroup.y >= rowCount()) { return; }
  let base = workgroup.y * ${channels}u + workgroup.x * ${keySize}u;
  var sum = 0.0;
  for (var i = thread; i < ${keySize}u; i += ${LENGTH_THREADS}u) { sum = fma(mixed[base + i], mixed[base + i], sum); }
  let length = select(1.0, ${keySize ** -0.5}, workgroup.x < ${keyHeads}u);
  let factor = length / sqrt(rowSum(sum, thread) + ${LENGTH_EPSILON});
  for (var i = thread; i < ${keySize}u; i += ${LENGTH_THREADS}u) { mixed[base + i] *= factor; }
}
`;
}

/** Bindings: step, projections, channels, biases and rates of decays, state, output. */
export function learnDeltaKernel(shape: DeltaShape): string {
  const { keyHeads, keySize, valueHeads, valueSize, channels, stride } = shape;
  const keysAt = keyHeads * keySize;
  const keyHead =
    shape.sharing === 'strided' ? `head % ${keyHeads}u` : `(head * ${keyHeads}u) / ${valueHeads}u`;
  const place = `${shape.learntAt}u + (head * ${keySize}u + k) * ${valueSize}u + column`;
  const row = /* wgsl */ `
    let gates = row * ${stride}u + head;
    let decay = rates[${valueHeads}u + head] * softplus(made[gates + ${shape.decaysAt}u] + rates[head]);
    let share = sigmoid(made[gates + ${shape.sharesAt}u]);
    let fading = exp(decay);
    let query = row * ${channels}u + (${keyHead}) * ${keySize}u + first;
    let key = query + ${keysAt}u;
    var part = 0.0;
    for (var i = 0u; i < OWN; i++) {
      if (first + i < DEPTH) {
        learnt[i] *= fading;
        part = fma(learnt[i], mixed[key + i], part);
      }
    }
    let value = mixed[row * ${channels}u + ${2 * keysAt}u + head * ${valueSize}u + column];
    let correction = share * (value - known(part, thread));
    part = 0.0;
    for (var i = 0u; i < OWN; i++) {
      if (first + i < DEPTH) {
        learnt[i] = fma(mixed[key + i], correction, learnt[i]);
        part = fma(learnt[i], mixed[query + i], part);
      }
    }
    let answer = asked(part, thread);
    if (isFirst) { given[(row * ${valueHeads}u + head) * ${valueSize}u + column] = answer; }`;
  return /* wgsl */ `
${statesReader(0)}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read> mixed: array<f32>;
@group(0) @binding(3) var<storage, read> rates: array<f32>;
@group(0) @binding(4) var<storage, read_write> memory: array<f32>;
@group(0) @binding(5) var<storage, read_write> given: array<f32>;
${spoiled}${sigmoid}${softplus}
${learntText({ depth: keySize, place, slotSize: shape.slotSize })}
${columnSum('known')}
${columnSum('asked')}
${throughRows(valueSize, row)}`;
}
