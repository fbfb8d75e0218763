// The operations of a gated delta net.

import type { GatedDeltaNetSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { type DeltaShape, learnDeltaKernel, toLengthKernel } from '../kernels/learn-delta.ts';
import { recurrenceGroups } from '../kernels/recurrence.ts';
import type { Linears } from '../linears.ts';
import { convolve, giveBack, makeRows, normAndGate, placesOf } from './recurrent.ts';

export async function buildGatedDeltaNet(
  builder: Builder,
  linears: Linears,
  memory: GPUBuffer,
  body: GatedDeltaNetSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { query, key, value, gate, share, decay, valueHeads, valueSize } = body;
  const places = placesOf(builder, body);
  const gatesAt = places.channels;
  const sharesAt = gatesAt + valueHeads * valueSize;
  const shape: DeltaShape = { ...body, ...places, sharesAt, decaysAt: sharesAt + valueHeads };
  const { step, heads, mixed, attended } = builder.scratch;
  const specs = [query, key, value, gate, share, decay];
  await makeRows(builder, linears, specs, input, places.stride);
  await convolve(builder, memory, body, { activated: true });
  builder.add('to length', toLengthKernel(shape), [step, mixed], ({ rows }) => [2 * body.keyHeads, rows]);
  const rates = await builder.vectors('decays', [
    builder.vector(body.decayBias),
    builder.vector(body.decayRate),
  ]);
  const buffers = [step, heads, mixed, ...rates, memory, attended];
  builder.add('learn', learnDeltaKernel(shape), buffers, ({ sequences }) => [
    recurrenceGroups(valueHeads, valueSize),
    sequences,
  ]);
  const gates = { apply: 'behind', stride: places.stride, offset: gatesAt } as const;
  await normAndGate(builder, body.norm, { runs: valueHeads, size: valueSize, gates });
  await giveBack(builder, linears, body, attended, output);
}
