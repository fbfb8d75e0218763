// The operations of a convolution between two gates.

import type { ShortConvSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import type { Linears } from '../linears.ts';
import { convolve, giveBack, makeRows, placesOf } from './recurrent.ts';

export async function buildShortConv(
  builder: Builder,
  linears: Linears,
  memory: GPUBuffer,
  body: ShortConvSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { value, before, after, size } = body;
  await makeRows(builder, linears, [value, before, after], input, placesOf(builder, body).stride);
  await convolve(builder, memory, body, { activated: false, before: size, after: 2 * size });
  await giveBack(builder, linears, body, builder.scratch.mixed, output);
}
