// The recurrence of a state space model: see Mamba2Spec.

import type { Mamba2Spec } from '../../../model/spec.ts';
import { softplus, spoiled } from './activation.ts';
import { columnSum, learntText, throughRows } from './recurrence.ts';
import { statesReader } from './step-layout.ts';

interface SpaceShape extends Pick<Mamba2Spec, 'heads' | 'headSize' | 'stateSize' | 'groups'> {
  /** Channels of a row: values, writes and reads. */
  readonly channels: number;
  /** Values of a row of projections, and where steps start there. */
  readonly stride: number;
  readonly stepsAt: number;
  /** Where the first head's matrix starts in a slot, and values of a slot. */
  readonly learntAt: number;
  readonly slotSize: number;
}

/** Bindings: step, projections, channels, biases of steps with rates and skips, state, output. */
export function advanceSpaceKernel(shape: SpaceShape): string {
  const { heads, headSize, stateSize, groups, channels } = shape;
  const writesAt = heads * headSize;
  const place = `${shape.learntAt}u + (head * ${headSize}u + column) * ${stateSize}u + k`;
  const row = /* wgsl */ `
    let length = softplus(made[row * ${shape.stride}u + ${shape.stepsAt}u + head] + rates[head]);
    let fading = exp(length * rates[${heads}u + head]);
    let value = mixed[row * ${channels}u + head * ${headSize}u + column];
    let write = row * ${channels}u + ${writesAt}u + ((head * ${groups}u) / ${heads}u) * ${stateSize}u + first;
    let read = write + ${groups * stateSize}u;
    var part = 0.0;
    for (var i = 0u; i < OWN; i++) {
      if (first + i < DEPTH) {
        learnt[i] = fma(learnt[i], fading, length * value * mixed[write + i]);
        part = fma(learnt[i], mixed[read + i], part);
      }
    }
    let sum = gathered(part, thread);
    workgroupBarrier();
    if (isFirst) {
      given[(row * ${heads}u + head) * ${headSize}u + column] = fma(rates[${2 * heads}u + head], value, sum);
    }`;
  return /* wgsl */ `
${statesReader(0)}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read> mixed: array<f32>;
@group(0) @binding(3) var<storage, read> rates: array<f32>;
@group(0) @binding(4) var<storage, read_write> memory: array<f32>;
@group(0) @binding(5) var<storage, read_write> given: array<f32>;
${spoiled}${softplus}
${learntText({ depth: stateSize, place, slotSize: shape.slotSize })}
${columnSum('gathered')}
${throughRows(headSize, row)}`;
}
