// LAuReL: a low-rank map whose input is added to its output.

import type { LaurelSpec } from '../../../model/spec.ts';
import type { InputSource, LayerOutput } from '../builder.ts';
import { paddedValues } from '../kernels/linear-input.ts';
import type { LayerBuilder } from '../linears.ts';

export function buildLaurel(
  builder: LayerBuilder,
  { down, up, norm }: LaurelSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { linears } = builder;
  const { hiddenSize } = builder.spec;
  if (paddedValues(hiddenSize) !== hiddenSize) throw new Error('a low-rank map has rows of whole pairs');
  const rank = down.weight.rows;
  const ranks = builder.scratch('gate and up', rank);
  const mapped = builder.scratch('layer output', hiddenSize);
  const unmapped = builder.scratch('LAuReL input', hiddenSize);
  linears.values(input, 'all', unmapped);
  const first = linears.load('down of a low rank', [down]);
  linears.input([first], input);
  linears.multiply(first, { buffer: ranks, stride: rank });
  const second = linears.load('up of a low rank', [up]);
  linears.input([second], { making: { kind: 'plain' }, size: rank, stride: rank, buffers: [ranks] });
  linears.multiply(second, { buffer: mapped, stride: hiddenSize });
  builder.join({ from: unmapped }, output);
  builder.join({ from: mapped, norm: builder.norm(norm) }, { ...output, adds: true });
}
