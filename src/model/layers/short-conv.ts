// The gated short convolution of one layer (LFM 2).

import type { LayerBuilder } from '../layer-builder.ts';
import type { LinearSpec } from '../leaves.ts';
import { type ConvolutionSpec, convolutionSpec, recurrentState } from './convolution.ts';

/** A convolution between two gates: `output(after * convolution(before * value))`. */
export interface ShortConvSpec {
  readonly kind: 'short-conv';
  readonly state: number;
  readonly size: number;
  readonly before: LinearSpec;
  readonly after: LinearSpec;
  readonly value: LinearSpec;
  readonly convolution: ConvolutionSpec;
  readonly output: LinearSpec;
}

interface ShortConvOptions {
  readonly length: number;
  readonly bias: boolean;
}

const names = {
  convolutionInput: { hub: 'conv.in_proj', gguf: 'shortconv.in_proj' },
  convolution: { hub: 'conv.conv', gguf: 'shortconv.conv' },
  convolutionOutput: { hub: 'conv.out_proj', gguf: 'shortconv.out_proj' },
};

export function shortConv(layer: LayerBuilder, { length, bias }: ShortConvOptions): ShortConvSpec {
  const { hiddenSize: size } = layer.sizes;
  const leaves = layer.leaves(names);
  const square = { rows: size, columns: size, bias };
  const third = (part: number) => leaves.linear('convolutionInput', { ...square, firstRow: part * size });
  const convolution = convolutionSpec(leaves, 'convolution', size, { length, bias });
  return {
    kind: 'short-conv',
    state: layer.addRecurrentState(recurrentState(convolution, 0)),
    size,
    before: third(0),
    after: third(1),
    value: third(2),
    convolution,
    output: leaves.linear('convolutionOutput', square),
  };
}
