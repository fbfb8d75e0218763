// AltUp: several residual streams, of which layers change the first. All are predicted before each layer and corrected after it.

import type { LayerAltUpSpec } from '../../../model/spec.ts';
import { applyLinear, type Linear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { dot } from '../vector.ts';
import type { Loaded } from '../weights.ts';

type LayerAltUp = Loaded<LayerAltUpSpec>;

export type Streams = readonly Float32Array[];

export function spreadAltUp(first: Float32Array, spread: readonly Linear[]): Streams {
  return [first, ...spread.map((linear) => scaledAs(applyLinear(linear, first), first, linear.matrix.rows))];
}

/** The mean of the first stream and of the others, each through a linear map. */
export function gatherAltUp([first, ...others]: Streams, gather: readonly Linear[]): Float32Array {
  const base = first as Float32Array;
  const back = others.map((stream, index) => {
    const linear = gather[index] as Linear;
    return scaledAs(applyLinear(linear, stream), base, linear.matrix.rows);
  });
  return base.map(
    (value, at) => back.reduce((sum, stream) => sum + (stream[at] as number), value) / (1 + back.length),
  );
}

const LEAST_SQUARE = 1e-5;

/** Scales rows to the root mean squares of other rows, in place. */
function scaledAs(rows: Float32Array, like: Float32Array, size: number): Float32Array {
  for (let at = 0; at < rows.length; at += size) {
    const square = Math.max(dot(rows, at, rows, at, size) / size, LEAST_SQUARE);
    const factor = Math.sqrt(dot(like, at, like, at, size) / size / square);
    for (let i = at; i < at + size; i++) rows[i] = (rows[i] as number) * factor;
  }
  return rows;
}

export function predictAltUp(layer: LayerAltUp, streams: Streams, epsilon: number): Streams {
  const count = streams.length;
  const coefficients = applyLinear(layer.prediction, featuresOf(layer, streams[0] as Float32Array, epsilon));
  const size = layer.features.matrix.columns;
  return streams.map((stream, index) =>
    stream.map((value, at) => {
      const first = (Math.floor(at / size) * count + index) * count;
      return streams.reduce(
        (sum, other, j) => sum + (coefficients[first + j] as number) * (other[at] as number),
        value,
      );
    }),
  );
}

/** `first` is the first prediction after the layer's branches. */
export function correctAltUp(
  layer: LayerAltUp,
  predictions: Streams,
  first: Float32Array,
  epsilon: number,
): Streams {
  const count = predictions.length;
  const coefficients = applyLinear(layer.correction, featuresOf(layer, first, epsilon));
  const size = layer.features.matrix.columns;
  const predicted = predictions[0] as Float32Array;
  return predictions.map((prediction, index) =>
    prediction.map((value, at) => {
      const coefficient = coefficients[Math.floor(at / size) * count + index] as number;
      return value + (1 + coefficient) * ((first[at] as number) - (predicted[at] as number));
    }),
  );
}

function featuresOf({ norm, features }: LayerAltUp, first: Float32Array, epsilon: number): Float32Array {
  return applyLinear(features, normalize(first.slice(), features.matrix.columns, norm, epsilon)).map(
    Math.tanh,
  );
}
