// Causal convolutions of channels with those of the tokens before, which lie in a state slot, the oldest first, where they are
// of an earlier step; and the update of that slot.

import { activationText } from './activation.ts';
import { statesReader } from './step-layout.ts';

export interface ConvolveShape {
  readonly channels: number;
  /** Tokens that a channel is made of. */
  readonly length: number;
  /** Values of a row that is read; its channels come first. */
  readonly stride: number;
  /** Where factors on channels start in a row: on the convolution's input and on its output. */
  readonly before?: number;
  readonly after?: number;
  readonly activated: boolean;
  readonly hasBias: boolean;
  readonly slotSize: number;
}

const THREADS = 64;

export const CONVOLVED_CHANNELS = THREADS;

function freshText({ channels, length, stride, before, slotSize }: ConvolveShape): string {
  const factor = before === undefined ? '' : ` * made[row * ${stride}u + ${before}u + channel]`;
  return /* wgsl */ `
fn fresh(row: u32, channel: u32) -> f32 { return made[row * ${stride}u + channel]${factor}; }
/** Of the token so many before a row; nothing before the sequence begins. */
fn past(sequence: Sequence, row: u32, back: u32, channel: u32) -> f32 {
  if (row >= sequence.firstRow + back) { return fresh(row - back, channel); }
  if (isEmpty(sequence)) { return 0.0; }
  let age = ${length - 1}u + row - sequence.firstRow - back;
  return memory[sequence.slot * ${slotSize}u + age * ${channels}u + channel];
}`;
}

/** Bindings: step, projections, state, weights and biases, output. */
export function convolveKernel(shape: ConvolveShape): string {
  const { channels, length, stride, after, activated, hasBias } = shape;
  const factor = after === undefined ? '' : ` * made[row * ${stride}u + ${after}u + channel]`;
  return /* wgsl */ `
${statesReader(0)}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read> memory: array<f32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> mixed: array<f32>;
${activated ? activationText('silu') : ''}
${freshText(shape)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  let channel = workgroup.x * ${THREADS}u + thread;
  if (row >= rowCount() || channel >= ${channels}u) { return; }
  let sequence = sequenceOf(row);
  let at = channel * ${length}u;
  var sum = fma(weights[at + ${length - 1}u], fresh(row, channel), ${hasBias ? `weights[${channels * length}u + channel]` : '0.0'});
  for (var age = 0u; age < ${length - 1}u; age++) {
    sum = fma(weights[at + age], past(sequence, row, ${length - 1}u - age, channel), sum);
  }
  mixed[row * ${channels}u + channel] = ${activated ? 'activate(sum)' : 'sum'}${factor};
}
`;
}

/**
 * Bindings: step, projections, state. A thread takes one channel of a sequence: it reads all of a slot before it writes, for
 * the slots may be the same.
 */
export function keepChannelsKernel(shape: ConvolveShape): string {
  const { channels, length, slotSize } = shape;
  const waiting = length - 1;
  return /* wgsl */ `
${statesReader(0)}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read_write> memory: array<f32>;
${freshText(shape)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let channel = workgroup.x * ${THREADS}u + thread;
  if (workgroup.y >= sequenceCount() || channel >= ${channels}u) { return; }
  let sequence = sequenceAt(workgroup.y);
  // What waited, the newest last, as the rows before the first.
  var waited: array<f32, ${Math.max(1, waiting)}>;
  for (var age = 0u; age < ${waiting}u; age++) {
    waited[age] = past(sequence, sequence.firstRow, ${waiting}u - age, channel);
  }
  for (var index = 0u; index < sequence.kept; index++) {
    let row = keptRow(sequence, index);
    let slot = keptSlot(sequence, index) * ${slotSize}u + channel;
    for (var age = 0u; age < ${waiting}u; age++) {
      let back = ${length - 2}u - age;
      if (row >= sequence.firstRow + back) {
        memory[slot + age * ${channels}u] = fresh(row - back, channel);
      } else {
        memory[slot + age * ${channels}u] = waited[${waiting}u + row - sequence.firstRow - back];
      }
    }
  }
}
`;
}
