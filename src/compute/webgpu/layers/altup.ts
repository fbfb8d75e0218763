// The operations of further residual streams beside the first: made before the first layer, predicted before each, corrected
// behind it, and gathered behind the last.

import type { AltUpSpec, LayerAltUpSpec, LinearSpec, ModelSpec } from '../../../model/spec.ts';
import type { Builder, InputSource } from '../builder.ts';
import {
  type AltUpShape,
  correctAltUpKernel,
  predictAltUpKernel,
  scaleAltUpKernel,
  seeStreamKernel,
  tellAltUpKernel,
} from '../kernels/altup.ts';
import { type Linears, shifted } from '../linears.ts';

const shapeOf = ({ hiddenSize, altUp }: ModelSpec): AltUpShape => ({
  size: hiddenSize,
  others: altUp?.spread.length ?? 0,
});

/** The others are made of the first. */
export async function spreadAltUp(builder: Builder, linears: Linears, { spread }: AltUpSpec): Promise<void> {
  await mapEach(builder, linears, spread, () => builder.stream(undefined));
  add(builder, 'spread streams', scaleAltUpKernel(shapeOf(builder.spec), 'scaled'));
}

/** The first becomes the mean of all. */
export async function gatherAltUp(builder: Builder, linears: Linears, { gather }: AltUpSpec): Promise<void> {
  const { size, others } = shapeOf(builder.spec);
  await mapEach(builder, linears, gather, (index) => ({
    making: { kind: 'plain', offset: index * size },
    size,
    stride: others * size,
    buffers: [builder.scratch.streams],
  }));
  add(builder, 'gather streams', scaleAltUpKernel(shapeOf(builder.spec), 'mean'));
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

export async function predictAltUp(builder: Builder, linears: Linears, layer: LayerAltUpSpec): Promise<void> {
  const { coefficients, predicted } = builder.scratch;
  await makeCoefficients(builder, linears, layer, layer.prediction);
  const text = predictAltUpKernel(shapeOf(builder.spec));
  add(builder, 'predict streams', text, coefficients, predicted);
}

export async function correctAltUp(builder: Builder, linears: Linears, layer: LayerAltUpSpec): Promise<void> {
  const { coefficients, predicted } = builder.scratch;
  await makeCoefficients(builder, linears, layer, layer.correction);
  const text = correctAltUpKernel(shapeOf(builder.spec));
  add(builder, 'correct streams', text, coefficients, predicted);
}

/** The stream as the part sees it that tells others of it: where that is. */
export async function seenStream(builder: Builder, { perLayerScale }: LayerAltUpSpec): Promise<GPUBuffer> {
  const { step, residual, predicted } = builder.scratch;
  const factors = await builder.vectors('factors on a stream', [builder.vector(perLayerScale)]);
  if (factors.length === 0) return residual;
  const text = seeStreamKernel(shapeOf(builder.spec));
  builder.add('see stream', text, [step, residual, predicted, ...factors], ({ rows }) => [rows, 1]);
  return predicted;
}

export function tellAltUp(builder: Builder, told: GPUBuffer): void {
  add(builder, 'tell streams', tellAltUpKernel(shapeOf(builder.spec)), told);
}

async function makeCoefficients(
  builder: Builder,
  linears: Linears,
  layer: LayerAltUpSpec,
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
