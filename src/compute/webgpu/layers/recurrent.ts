// What bodies with a memory have in common: all that they make of their input lies side by side, what is convolved first.

import { channelsOf } from '../../../model/layers/convolution.ts';
import type { LinearSpec, NormSpec, RecurrentSpec, RecurrentStateSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import {
  CONVOLVED_CHANNELS,
  type ConvolveShape,
  convolveKernel,
  keepChannelsKernel,
} from '../kernels/convolve.ts';
import { type NormGateShape, normGateKernel } from '../kernels/norm-gate.ts';
import type { Linears } from '../linears.ts';
import { givenValues, rememberedValues } from '../widths.ts';

/** Where the parts of a slot and of a row are. */
interface RememberingPlaces {
  readonly channels: number;
  /** Values of a row. */
  readonly stride: number;
  /** Where what was learnt starts in a slot, behind the channels that wait. */
  readonly learntAt: number;
  readonly slotSize: number;
}

export function placesOf({ spec }: Builder, body: RecurrentSpec): RememberingPlaces {
  const channels = channelsOf(body);
  const { size: slotSize } = spec.recurrentStates[body.state] as RecurrentStateSpec;
  const learntAt = (body.convolution.length - 1) * channels;
  return { channels, stride: rememberedValues(body), learntAt, slotSize };
}

/** All that is made of the input. */
export async function makeRows(
  { scratch }: Builder,
  linears: Linears,
  specs: readonly LinearSpec[],
  input: InputSource,
  stride: number,
): Promise<void> {
  const made = await linears.load('rows to remember', specs);
  linears.input([made], input);
  await linears.multiply(made, { buffer: scratch.heads, stride });
}

/** Channels of all rows, mixed with those before; then they wait for the next step. */
export async function convolve(
  builder: Builder,
  memory: GPUBuffer,
  body: RecurrentSpec,
  made: Pick<ConvolveShape, 'activated' | 'before' | 'after'>,
): Promise<void> {
  const { step, heads, mixed } = builder.scratch;
  const { weight, bias, length } = body.convolution;
  const shape = { ...placesOf(builder, body), ...made, length, hasBias: bias !== undefined };
  const weights = await builder.vectors('convolution', [builder.vector(weight), builder.vector(bias)]);
  const groups = Math.ceil(shape.channels / CONVOLVED_CHANNELS);
  builder.add('convolve', convolveKernel(shape), [step, heads, memory, ...weights, mixed], ({ rows }) => [
    groups,
    rows,
  ]);
  builder.add('keep channels', keepChannelsKernel(shape), [step, heads, memory], ({ sequences }) => [
    groups,
    sequences,
  ]);
}

/** What was given, normalized and gated in place. */
export async function normAndGate(
  builder: Builder,
  spec: NormSpec,
  shape: Omit<NormGateShape, 'norm' | 'epsilon'>,
): Promise<void> {
  const { step, heads, attended } = builder.scratch;
  const norm = await builder.norm(spec);
  const text = normGateKernel({ ...shape, norm: norm.shape, epsilon: builder.spec.normEpsilon });
  builder.add('norm and gate', text, [step, attended, heads, ...norm.buffers], ({ rows }) => [
    shape.runs,
    rows,
  ]);
}

/** The last map, of rows as they are. */
export async function giveBack(
  { spec }: Builder,
  linears: Linears,
  body: RecurrentSpec,
  from: GPUBuffer,
  output: BodyOutput,
): Promise<void> {
  const back = await linears.load('output', [body.output]);
  const size = givenValues(body);
  linears.input([back], { making: { kind: 'plain' }, size, stride: size, buffers: [from] });
  await linears.multiply(back, { ...output, stride: spec.hiddenSize });
}
