// Inputs of single layers: how all are made before the first layer, and the operations of a body that lets its own through.

import type { PerLayerInputSpec, PerLayerInputsSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { embed } from '../embed.ts';
import { normGateKernel } from '../kernels/norm-gate.ts';
import type { Linears } from '../linears.ts';
import { loadMatrix } from '../matrix.ts';

export async function makePerLayerInputs(
  builder: Builder,
  linears: Linears,
  spec: PerLayerInputsSpec,
): Promise<void> {
  const { step, perLayerInputs } = builder.scratch;
  const { count, size, table, tableScale } = spec;
  const projection = await linears.load('projection of layer inputs', [spec.projection]);
  linears.input([projection], builder.stream(undefined));
  const output = { buffer: perLayerInputs, stride: count * size, scale: spec.projectionScale };
  await linears.multiply(projection, output);
  const norm = await builder.norm(spec.norm);
  const text = normGateKernel({ runs: count, size, norm: norm.shape, epsilon: builder.spec.normEpsilon });
  builder.add('norm of layer inputs', text, [step, perLayerInputs, ...norm.buffers], ({ rows }) => [
    count,
    rows,
  ]);
  const slices = { inputs: count * size, slices: [table] };
  const matrix = await loadMatrix(builder.loader, 'layer inputs', slices);
  embed(builder, matrix, perLayerInputs, { scale: tableScale, known: table.rows, adds: true });
}

export async function buildPerLayerInput(
  builder: Builder,
  linears: Linears,
  { index, activation, gate, output: back }: PerLayerInputSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { gateUp, perLayerInputs } = builder.scratch;
  const { hiddenSize, perLayerInputs: all } = builder.spec;
  const size = gate.weight.rows;
  const gates = await linears.load('gate of a layer input', [gate]);
  linears.input([gates], input);
  await linears.multiply(gates, { buffer: gateUp, stride: size });
  const outer = await linears.load('output of a layer input', [back]);
  linears.input([outer], {
    making: { kind: 'gating', activation, stride: (all?.count ?? 0) * size, offset: index * size },
    size,
    stride: size,
    buffers: [gateUp, perLayerInputs],
  });
  await linears.multiply(outer, { ...output, stride: hiddenSize });
}
