// What recurrent layers share: one product makes all projections of a row, side by side, those that are convolved first.

import { channelsOf } from '../../../model/layers/convolution.ts';
import type { LinearSpec, NormSpec, RecurrentSpec, RecurrentStateSpec } from '../../../model/spec.ts';
import type { DeclaredBuffer, InputSource, LayerOutput } from '../builder.ts';
import {
  CONVOLVED_CHANNELS,
  type ConvolveShape,
  convolveKernel,
  keepChannelsKernel,
} from '../kernels/causal-conv.ts';
import { type NormGateShape, normGateKernel } from '../kernels/norm.ts';
import type { LayerBuilder } from '../linears.ts';

interface RecurrentRows {
  readonly projections: DeclaredBuffer;
  readonly state: DeclaredBuffer;
  /** Where the parts of a row and of a state slot are: a slot holds the last channels, then the matrices of heads. */
  readonly places: {
    readonly channels: number;
    /** Values of a row. */
    readonly stride: number;
    readonly learntAt: number;
    readonly slotSize: number;
  };
}

export function project(
  builder: LayerBuilder,
  body: RecurrentSpec,
  specs: readonly LinearSpec[],
  input: InputSource,
): RecurrentRows {
  const { linears, spec } = builder;
  const channels = channelsOf(body);
  const stride = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
  const projections = builder.scratch('projections', stride);
  const made = linears.load('projections', specs);
  linears.input([made], input);
  linears.multiply(made, { buffer: projections, stride });
  const learntAt = (body.convolution.length - 1) * channels;
  const { size: slotSize } = spec.recurrentStates[body.state] as RecurrentStateSpec;
  const state = builder.recurrentStates[body.state] as DeclaredBuffer;
  return { projections, state, places: { channels, stride, learntAt, slotSize } };
}

/** Channels of all rows, convolved with those before, which are then kept for the next step. */
export function convolve(
  builder: LayerBuilder,
  { convolution }: RecurrentSpec,
  { projections, state, places }: RecurrentRows,
  made: Pick<ConvolveShape, 'activated' | 'before' | 'after'>,
): DeclaredBuffer {
  const { step } = builder.scratchPlan;
  const { weight, bias, length } = convolution;
  const convolved = builder.scratch('channels', places.channels);
  const shape = { ...places, ...made, length, hasBias: bias !== undefined };
  const weights = builder.vectors('convolution', [weight, bias]);
  const groups = Math.ceil(places.channels / CONVOLVED_CHANNELS);
  builder.add(
    'convolve',
    () => convolveKernel(shape),
    [step, projections, state, ...weights, convolved],
    ({ rows }) => [groups, rows],
  );
  builder.add(
    'keep channels',
    () => keepChannelsKernel(shape),
    [step, projections, state],
    ({ sequences }) => [groups, sequences],
  );
  return convolved;
}

/** Normalizes and gates values in place. */
export function normAndGate(
  builder: LayerBuilder,
  spec: NormSpec,
  values: DeclaredBuffer,
  gates: DeclaredBuffer,
  shape: Omit<NormGateShape, 'norm' | 'epsilon'>,
): void {
  const { normEpsilon: epsilon } = builder.spec;
  const norm = builder.norm(spec);
  builder.add(
    'norm and gate',
    () => normGateKernel({ ...shape, norm: norm.shape, epsilon }),
    [builder.scratchPlan.step, values, gates, ...norm.buffers],
    ({ rows }) => [shape.runs, rows],
  );
}

export function mapBack(
  { linears, spec }: LayerBuilder,
  { output: linear }: RecurrentSpec,
  from: DeclaredBuffer,
  output: LayerOutput,
): void {
  const size = linear.columns;
  const back = linears.load('output', [linear]);
  linears.input([back], { making: { kind: 'plain' }, size, stride: size, buffers: [from] });
  linears.multiply(back, { ...output, stride: spec.hiddenSize });
}
