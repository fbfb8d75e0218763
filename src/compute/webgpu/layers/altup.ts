// AltUp: further residual streams next to the first, made before the first layer, predicted before each, corrected after
// it, and gathered after the last.

import type { AltUpSpec, LayerAltUpSpec, LinearSpec, ModelSpec } from '../../../model/spec.ts';
import type { DeclaredBuffer, InputSource } from '../builder.ts';
import {
  type AltUpShape,
  addToStreamsKernel,
  correctAltUpKernel,
  predictAltUpKernel,
  scaleAltUpKernel,
  scaleFirstKernel,
} from '../kernels/altup.ts';
import type { LayerBuilder } from '../linears.ts';

const shapeOf = ({ hiddenSize, altUp }: ModelSpec): AltUpShape => ({
  size: hiddenSize,
  others: altUp?.spread.length ?? 0,
});

/** All streams but the first, side by side. */
function streamsOf(builder: LayerBuilder): DeclaredBuffer {
  const { size, others } = shapeOf(builder.spec);
  return builder.scratch('AltUp streams', others * size);
}

const predictionOf = (builder: LayerBuilder): DeclaredBuffer =>
  builder.scratch('AltUp prediction', builder.spec.hiddenSize);

/** The others are made of the first. */
export function spreadAltUp(builder: LayerBuilder, { spread }: AltUpSpec): void {
  mapEach(builder, spread, () => builder.stream(undefined));
  add(builder, 'spread streams', (shape) => scaleAltUpKernel(shape, 'scaled'));
}

/** The first becomes the mean of all. */
export function gatherAltUp(builder: LayerBuilder, { gather }: AltUpSpec): void {
  const { size, others } = shapeOf(builder.spec);
  mapEach(builder, gather, (index) => ({
    making: { kind: 'plain', offset: index * size },
    size,
    stride: others * size,
    buffers: [streamsOf(builder)],
  }));
  add(builder, 'gather streams', (shape) => scaleAltUpKernel(shape, 'mean'));
}

function mapEach(
  builder: LayerBuilder,
  specs: readonly LinearSpec[],
  source: (index: number) => InputSource,
): void {
  const { size, others } = shapeOf(builder.spec);
  for (const [index, spec] of specs.entries()) {
    const linear = builder.linears.load('map of a stream', [spec]);
    builder.linears.input([linear], source(index));
    const output = { buffer: streamsOf(builder), stride: others * size, offset: index * size };
    builder.linears.multiply(linear, output);
  }
}

export function predictAltUp(builder: LayerBuilder, layer: LayerAltUpSpec): void {
  const coefficients = makeCoefficients(builder, layer, layer.prediction);
  add(builder, 'predict streams', predictAltUpKernel, coefficients, predictionOf(builder));
}

export function correctAltUp(builder: LayerBuilder, layer: LayerAltUpSpec): void {
  const coefficients = makeCoefficients(builder, layer, layer.correction);
  add(builder, 'correct streams', correctAltUpKernel, coefficients, predictionOf(builder));
}

/** Where the first stream lies as the per-layer part reads it. */
export function perLayerStream(builder: LayerBuilder, { perLayerScale }: LayerAltUpSpec): DeclaredBuffer {
  const { residual, scratchPlan, spec } = builder;
  const factors = builder.vectors('factors on a stream', [perLayerScale]);
  if (factors.length === 0) return residual;
  const scaled = predictionOf(builder);
  const buffers = [scratchPlan.step, residual, scaled, ...factors];
  builder.add(
    'scale stream',
    () => scaleFirstKernel(shapeOf(spec)),
    buffers,
    ({ rows }) => [rows, 1],
  );
  return scaled;
}

/** All streams but the first have this added. */
export function addToStreams(builder: LayerBuilder, added: DeclaredBuffer): void {
  add(builder, 'add to streams', addToStreamsKernel, added);
}

function makeCoefficients(builder: LayerBuilder, layer: LayerAltUpSpec, map: LinearSpec): DeclaredBuffer {
  const { linears } = builder;
  const size = layer.features.weight.rows;
  const features = builder.scratch('AltUp features', size);
  const coefficients = builder.scratch('AltUp coefficients', map.weight.rows);
  const made = linears.load('features of streams', [layer.features]);
  linears.input([made], builder.stream(builder.norm(layer.norm)));
  linears.multiply(made, { buffer: features, stride: size });
  const mapped = linears.load('coefficients of streams', [map]);
  linears.input([mapped], { making: { kind: 'tanh' }, size, stride: size, buffers: [features] });
  linears.multiply(mapped, { buffer: coefficients, stride: map.weight.rows });
  return coefficients;
}

function add(
  builder: LayerBuilder,
  label: string,
  text: (shape: AltUpShape) => string,
  ...others: readonly DeclaredBuffer[]
): void {
  const { residual, scratchPlan, spec } = builder;
  const buffers = [scratchPlan.step, residual, streamsOf(builder), ...others];
  builder.add(
    label,
    () => text(shapeOf(spec)),
    buffers,
    ({ rows }) => [rows, 1],
  );
}
