// A gated delta net.

import type { GatedDeltaNetSpec } from '../../../model/spec.ts';
import type { InputSource, LayerOutput } from '../builder.ts';
import { type DeltaShape, learnDeltaKernel, toLengthKernel } from '../kernels/delta-rule.ts';
import { recurrenceGroups } from '../kernels/recurrence.ts';
import type { LayerBuilder } from '../linears.ts';
import { convolve, mapBack, normAndGate, project } from './recurrent.ts';

export function buildGatedDeltaNet(
  builder: LayerBuilder,
  body: GatedDeltaNetSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { query, key, value, gate, share, decay, valueHeads, valueSize } = body;
  const rows = project(builder, body, [query, key, value, gate, share, decay], input);
  const { projections, state, places } = rows;
  const gatesAt = places.channels;
  const sharesAt = gatesAt + valueHeads * valueSize;
  const shape: DeltaShape = { ...body, ...places, sharesAt, decaysAt: sharesAt + valueHeads };
  const { step } = builder.scratchPlan;
  const convolved = convolve(builder, body, rows, { activated: true });
  builder.add(
    'to length',
    () => toLengthKernel(shape),
    [step, convolved],
    (counts) => [2 * body.keyHeads, counts.rows],
  );
  const given = builder.scratch('mixer output', valueHeads * valueSize);
  const rates = builder.vectors('decays', [body.decayBias, body.decayRate]);
  builder.add(
    'learn',
    () => learnDeltaKernel(shape),
    [step, projections, convolved, ...rates, state, given],
    ({ sequences }) => [recurrenceGroups(valueHeads, valueSize), sequences],
  );
  const gates = { apply: 'after', stride: places.stride, offset: gatesAt } as const;
  normAndGate(builder, body.norm, given, projections, { runs: valueHeads, size: valueSize, gates });
  mapBack(builder, body, given, output);
}
