// The operations of a map through few values, beside which its input goes on.

import type { LaurelSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { paddedValues } from '../kernels/make-input.ts';
import type { Linears } from '../linears.ts';

export async function buildLaurel(
  builder: Builder,
  linears: Linears,
  { down, up, norm }: LaurelSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { gateUp, unshared, unmapped } = builder.scratch;
  const { hiddenSize } = builder.spec;
  if (paddedValues(hiddenSize) !== hiddenSize) throw new Error('a low-rank map has rows of whole pairs');
  linears.makeInput(input, 'all', { values: unmapped });
  const first = await linears.load('down of a low rank', [down]);
  linears.input([first], input);
  const rank = down.weight.rows;
  await linears.multiply(first, { buffer: gateUp, stride: rank });
  const second = await linears.load('up of a low rank', [up]);
  linears.input([second], { making: { kind: 'plain' }, size: rank, stride: rank, buffers: [gateUp] });
  await linears.multiply(second, { buffer: unshared, stride: hiddenSize });
  builder.join({ from: unmapped }, output);
  builder.join({ from: unshared, norm: await builder.norm(norm) }, { ...output, adds: true });
}
