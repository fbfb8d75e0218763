// The operations of a state space.

import type { Mamba2Spec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { advanceSpaceKernel, type SpaceShape } from '../kernels/advance-space.ts';
import { recurrenceGroups } from '../kernels/recurrence.ts';
import type { Linears } from '../linears.ts';
import { convolve, giveBack, makeRows, normAndGate, placesOf } from './recurrent.ts';

export async function buildMamba2(
  builder: Builder,
  linears: Linears,
  memory: GPUBuffer,
  body: Mamba2Spec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { value, write, read, gate, step: steps, heads: headCount, headSize } = body;
  const places = placesOf(builder, body);
  const gatesAt = places.channels;
  const size = headCount * headSize;
  const shape: SpaceShape = { ...body, ...places, stepsAt: gatesAt + size };
  const { step, heads, mixed, attended } = builder.scratch;
  await makeRows(builder, linears, [value, write, read, gate, steps], input, places.stride);
  await convolve(builder, memory, body, { activated: true });
  const rates = await builder.vectors('steps', [
    builder.vector(body.stepBias),
    builder.vector(body.rate),
    builder.vector(body.skip),
  ]);
  const buffers = [step, heads, mixed, ...rates, memory, attended];
  builder.add('advance', advanceSpaceKernel(shape), buffers, ({ sequences }) => [
    recurrenceGroups(headCount, headSize),
    sequences,
  ]);
  const gates = { apply: 'before', stride: places.stride, offset: gatesAt } as const;
  await normAndGate(builder, body.norm, { runs: 1, size, gates });
  await giveBack(builder, linears, body, attended, output);
}
