// A convolution between two gates.

import type { ShortConvSpec } from '../../../model/spec.ts';
import type { InputSource, LayerOutput } from '../builder.ts';
import type { LayerBuilder } from '../linears.ts';
import { convolve, mapBack, project } from './recurrent.ts';

export function buildShortConv(
  builder: LayerBuilder,
  body: ShortConvSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { value, before, after, size } = body;
  const rows = project(builder, body, [value, before, after], input);
  const convolved = convolve(builder, body, rows, { activated: false, before: size, after: 2 * size });
  mapBack(builder, body, convolved, output);
}
