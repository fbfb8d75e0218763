// The operations of further residual streams beside the first: made before the first layer, predicted before each, corrected
// behind it, and gathered behind the last.

import type { LayerStreamsSpec, LinearSpec, ModelSpec, StreamsSpec } from '../../../model/spec.ts';
import type { Builder, InputSource } from '../builder.ts';
import {
  correctStreamsKernel,
  predictStreamsKernel,
  type StreamsShape,
  scaleStreamsKernel,
  seeStreamKernel,
  tellStreamsKernel,
} from '../kernels/altup.ts';
import { type Linears, shifted } from '../linears.ts';

const shapeOf = ({ hiddenSize, streams }: ModelSpec): StreamsShape => ({
  size: hiddenSize,
  others: streams?.spread.length ?? 0,
});

/** The others are made of the first. */
export async function spreadStreams(
  builder: Builder,
  linears: Linears,
  { spread }: StreamsSpec,
): Promise<void> {
  await mapEach(builder, linears, spread, () => builder.stream(undefined));
  add(builder, 'spread streams', scaleStreamsKernel(shapeOf(builder.spec), 'scaled'));
}

/** The first becomes the mean of all. */
export async function gatherStreams(
  builder: Builder,
  linears: Linears,
  { gather }: StreamsSpec,
): Promise<void> {
  const { size, others } = shapeOf(builder.spec);
  await mapEach(builder, linears, gather, (index) => ({
    making: { kind: 'plain', offset: index * size },
    size,
    stride: others * size,
    buffers: [builder.scratch.streams],
  }));
  add(builder, 'gather streams', scaleStreamsKernel(shapeOf(builder.spec), 'mean'));
}

/** Linear maps into the others, one each. */
async function mapEach(
  builder: Builder,
  linears: Linears,
  specs: readonly LinearSpec[],
  source: (index: number) => InputSource,
): Promise<void> {
  const { size, others } = shapeOf(builder.spec);
  for (const [index, spec] of specs.entries()) {
    const linear = await linears.load('map of a stream', [spec]);
    linears.input([linear], source(index));
    const output = { buffer: builder.scratch.streams, stride: others * size };
    await linears.multiply(shifted(linear, index * size), output);
  }
}

export async function predictStreams(
  builder: Builder,
  linears: Linears,
  layer: LayerStreamsSpec,
): Promise<void> {
  const { coefficients, predicted } = builder.scratch;
  await makeCoefficients(builder, linears, layer, layer.prediction);
  const text = predictStreamsKernel(shapeOf(builder.spec));
  add(builder, 'predict streams', text, coefficients, predicted);
}

export async function correctStreams(
  builder: Builder,
  linears: Linears,
  layer: LayerStreamsSpec,
): Promise<void> {
  const { coefficients, predicted } = builder.scratch;
  await makeCoefficients(builder, linears, layer, layer.correction);
  const text = correctStreamsKernel(shapeOf(builder.spec));
  add(builder, 'correct streams', text, coefficients, predicted);
}

/** The stream as the part sees it that tells others of it: where that is. */
export async function seenStream(builder: Builder, { toldScale }: LayerStreamsSpec): Promise<GPUBuffer> {
  const { step, residual, predicted } = builder.scratch;
  const factors = await builder.vectors('factors on a stream', [builder.vector(toldScale)]);
  if (factors.length === 0) return residual;
  const text = seeStreamKernel(shapeOf(builder.spec));
  builder.add('see stream', text, [step, residual, predicted, ...factors], ({ rows }) => [rows, 1]);
  return predicted;
}

export function tellStreams(builder: Builder, told: GPUBuffer): void {
  add(builder, 'tell streams', tellStreamsKernel(shapeOf(builder.spec)), told);
}

async function makeCoefficients(
  builder: Builder,
  linears: Linears,
  layer: LayerStreamsSpec,
  map: LinearSpec,
): Promise<void> {
  const { features, coefficients } = builder.scratch;
  const size = layer.features.weight.rows;
  const made = await linears.load('features of streams', [layer.features]);
  linears.input([made], builder.stream(await builder.norm(layer.norm)));
  await linears.multiply(made, { buffer: features, stride: size });
  const mapped = await linears.load('coefficients of streams', [map]);
  linears.input([mapped], { making: { kind: 'tanh' }, size, stride: size, buffers: [features] });
  await linears.multiply(mapped, { buffer: coefficients, stride: map.weight.rows });
}

function add(builder: Builder, label: string, text: string, ...others: readonly GPUBuffer[]): void {
  const { step, residual, streams } = builder.scratch;
  builder.add(label, text, [step, residual, streams, ...others], ({ rows }) => [rows, 1]);
}
