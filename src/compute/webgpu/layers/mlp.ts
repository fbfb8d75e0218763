// A feed-forward, which each row may multiply by a gate of its own.

import type { MlpSpec } from '../../../model/spec.ts';
import type { DeclaredBuffer, InputSource, LayerOutput } from '../builder.ts';
import { cutGatesKernel } from '../kernels/gaussian-topk.ts';
import type { LayerBuilder } from '../linears.ts';

/** Values that the first maps make of a row: gate, up, and the row's own gate. */
export function mlpValues({ size, gate, share }: MlpSpec): number {
  return (gate === undefined ? size : 2 * size) + (share === undefined ? 0 : 1);
}

export function buildMlp(
  builder: LayerBuilder,
  body: MlpSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { gate, up, down, share } = body;
  const { linears, scratchPlan } = builder;
  const { hiddenSize } = builder.spec;
  const stride = mlpValues(body);
  const gateUp = builder.scratch('gate and up', stride);
  const inner = linears.load(
    'gate and up',
    [gate, up, share].filter((linear) => linear !== undefined),
  );
  linears.input([inner], input);
  linears.multiply(inner, { buffer: gateUp, stride });
  const { gateCutoff: cutoff, size } = body;
  if (gate !== undefined && cutoff !== undefined) {
    builder.add(
      'cut gates',
      () => cutGatesKernel({ size, stride, cutoff }),
      [scratchPlan.step, gateUp],
      ({ rows }) => [rows, 1],
    );
  }
  const outer = linears.load('down', [down]);
  linears.input([outer], activated(body, gateUp));
  if (share === undefined) {
    linears.multiply(outer, { ...output, stride: hiddenSize });
    return;
  }
  const ungated = builder.scratch('layer output', hiddenSize);
  linears.multiply(outer, { buffer: ungated, stride: hiddenSize });
  builder.join({ from: ungated, gate: { buffer: gateUp, stride, offset: stride - 1 } }, output);
}

/** What the second map reads, made of what the first gave. */
export function activated(body: MlpSpec, gateUp: DeclaredBuffer): InputSource {
  const { size, activation, gate } = body;
  const upOffset = gate === undefined ? undefined : size;
  return {
    making: { kind: 'activated', activation, upOffset },
    size,
    stride: mlpValues(body),
    buffers: [gateUp],
  };
}
