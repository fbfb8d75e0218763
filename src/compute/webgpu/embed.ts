// Rows of a table, one for each token of a step.

import type { Builder } from './builder.ts';
import { type EmbedShape, embedKernel } from './kernels/embed.ts';
import { panelBuffers } from './linears.ts';
import type { GpuMatrix } from './matrix.ts';

export function embed(
  builder: Builder,
  { format, inputs, parts }: GpuMatrix,
  into: GPUBuffer,
  how: Pick<EmbedShape, 'scale' | 'by' | 'known' | 'adds'>,
): void {
  for (const part of parts) {
    const { firstOutput: firstToken, outputs: tokens } = part;
    const text = embedKernel({ format, size: inputs, firstToken, tokens, ...how });
    const buffers = [...panelBuffers(part), into, builder.scratch.step];
    builder.add('embed', text, buffers, ({ rows }) => [rows, 1]);
  }
}
