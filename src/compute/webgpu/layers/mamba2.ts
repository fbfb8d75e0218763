// A state space (Mamba 2).

import type { Mamba2Spec } from '../../../model/spec.ts';
import type { InputSource, LayerOutput } from '../builder.ts';
import { recurrenceGroups } from '../kernels/recurrence.ts';
import { advanceSpaceKernel } from '../kernels/ssm.ts';
import type { LayerBuilder } from '../linears.ts';
import { convolve, mapBack, normAndGate, project } from './recurrent.ts';

export function buildMamba2(
  builder: LayerBuilder,
  body: Mamba2Spec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { value, write, read, gate, step: steps, heads, headSize } = body;
  const rows = project(builder, body, [value, write, read, gate, steps], input);
  const { projections, state, places } = rows;
  const convolved = convolve(builder, body, rows, { activated: true });
  const gatesAt = places.channels;
  const size = heads * headSize;
  const given = builder.scratch('mixer output', size);
  const rates = builder.vectors('steps', [body.stepBias, body.rate, body.skip]);
  builder.add(
    'advance',
    () => advanceSpaceKernel({ ...body, ...places, stepsAt: gatesAt + size }),
    [builder.scratchPlan.step, projections, convolved, ...rates, state, given],
    ({ sequences }) => [recurrenceGroups(heads, headSize), sequences],
  );
  const gates = { apply: 'before', stride: places.stride, offset: gatesAt } as const;
  normAndGate(builder, body.norm, given, projections, { runs: 1, size, gates });
  mapBack(builder, body, given, output);
}
