// The operations of a feed-forward, of which each row may take a share.

import type { MlpSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { cutGatesKernel } from '../kernels/cut-gates.ts';
import type { Linears } from '../linears.ts';
import { feedForwardValues } from '../widths.ts';

export async function buildMlp(
  builder: Builder,
  linears: Linears,
  body: MlpSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { gate, up, down, share } = body;
  const { gateUp, unshared } = builder.scratch;
  const { hiddenSize } = builder.spec;
  const stride = feedForwardValues(body);
  const inner = await linears.load(
    'gate and up',
    [gate, up, share].filter((linear) => linear !== undefined),
  );
  linears.input([inner], input);
  await linears.multiply(inner, { buffer: gateUp, stride });
  if (gate !== undefined && body.gateCutoff !== undefined) {
    const text = cutGatesKernel({ size: body.size, stride, cutoff: body.gateCutoff });
    builder.add('cut gates', text, [builder.scratch.step, gateUp], ({ rows }) => [rows, 1]);
  }
  const outer = await linears.load('down', [down]);
  linears.input([outer], activated(builder, body, stride));
  if (share === undefined) {
    await linears.multiply(outer, { ...output, stride: hiddenSize });
    return;
  }
  await linears.multiply(outer, { buffer: unshared, stride: hiddenSize });
  builder.join({ from: unshared, share: { buffer: gateUp, stride, offset: stride - 1 } }, output);
}

/** What the second map reads, made of what the first gave in rows of so many values. */
export function activated(
  { scratch }: Builder,
  { size, activation, gate }: MlpSpec,
  stride: number,
): InputSource {
  const upOffset = gate === undefined ? undefined : size;
  return {
    making: { kind: 'activated', activation, upOffset },
    size,
    stride,
    buffers: [scratch.gateUp],
  };
}
