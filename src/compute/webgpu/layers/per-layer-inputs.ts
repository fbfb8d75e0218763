// Per-layer inputs: how those of all layers are made before the first, and the layer that lets its own through a gate.

import type { PerLayerInputSpec, PerLayerInputsSpec } from '../../../model/spec.ts';
import type { InputSource, LayerOutput } from '../builder.ts';
import { normGateKernel } from '../kernels/norm.ts';
import type { LayerBuilder } from '../linears.ts';
import { loadMatrix } from '../matrix.ts';
import { embed } from './embedding.ts';

export function makePerLayerInputs(builder: LayerBuilder, spec: PerLayerInputsSpec): void {
  const { linears, scratchPlan } = builder;
  const { count, size, table, tableScale } = spec;
  const { normEpsilon: epsilon } = builder.spec;
  const inputs = builder.scratch('per-layer inputs', count * size);
  const projection = linears.load('projection of per-layer inputs', [spec.projection]);
  linears.input([projection], builder.stream(undefined));
  linears.multiply(projection, { buffer: inputs, stride: count * size, scale: spec.projectionScale });
  const norm = builder.norm(spec.norm);
  builder.add(
    'norm of per-layer inputs',
    () => normGateKernel({ runs: count, size, norm: norm.shape, epsilon }),
    [scratchPlan.step, inputs, ...norm.buffers],
    ({ rows }) => [count, rows],
  );
  const matrix = builder.declare('per-layer inputs', ({ loader }) =>
    loadMatrix(loader, 'per-layer inputs', { inputs: count * size, slices: [table] }),
  );
  embed(builder, matrix, inputs, { scale: tableScale, known: table.rows, adds: true });
}

export function buildPerLayerInput(
  builder: LayerBuilder,
  { index, activation, gate, output: back }: PerLayerInputSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { linears } = builder;
  const { hiddenSize, perLayerInputs } = builder.spec;
  const size = gate.weight.rows;
  const stride = (perLayerInputs?.count ?? 0) * size;
  const gated = builder.scratch('gate and up', size);
  const gates = linears.load('gate of a per-layer input', [gate]);
  linears.input([gates], input);
  linears.multiply(gates, { buffer: gated, stride: size });
  const outer = linears.load('output of a per-layer input', [back]);
  linears.input([outer], {
    making: { kind: 'gating', activation, stride, offset: index * size },
    size,
    stride: size,
    buffers: [gated, builder.scratch('per-layer inputs', stride)],
  });
  linears.multiply(outer, { ...output, stride: hiddenSize });
}
