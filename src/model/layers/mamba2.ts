// The state space of one layer, and the short convolution.

import type { Mamba2Traits, ShortConvTraits } from '../architecture.ts';
import { linearSpec } from '../linear-spec.ts';
import type { ConvolutionSpec, Mamba2Spec, ShortConvSpec } from '../spec.ts';
import { normNamed, rateSpec, type SpecParts, vectorSpec } from '../spec-parts.ts';
import type { LayerRole } from '../tensor-names.ts';

export function shortConvSpec(
  parts: SpecParts,
  { length, bias }: ShortConvTraits,
  index: number,
  state: number,
): ShortConvSpec {
  const { hiddenSize: size } = parts.sizes;
  const third = (part: number) =>
    linearSpec(parts.names, index, {
      role: 'convolutionInput',
      rows: size,
      columns: size,
      firstRow: part * size,
      bias,
    });
  return {
    kind: 'short-conv',
    state,
    size,
    before: third(0),
    after: third(1),
    value: third(2),
    convolution: convolution(parts, index, 'convolution', size, { length, bias }),
    output: linearSpec(parts.names, index, { role: 'convolutionOutput', rows: size, columns: size, bias }),
  };
}

export function mamba2Spec(parts: SpecParts, traits: Mamba2Traits, index: number, state: number): Mamba2Spec {
  const { sizes, names } = parts;
  const { heads, headSize, stateSize, groups } = traits;
  const values = heads * headSize;
  const shared = groups * stateSize;
  // In one tensor: the gate, values, writes and reads, steps.
  const input = (rows: number, firstRow: number) =>
    linearSpec(names, index, {
      role: 'spaceInput',
      rows,
      firstRow,
      columns: sizes.hiddenSize,
      bias: traits.projectionBias,
    });
  return {
    kind: 'mamba2',
    state,
    heads,
    headSize,
    stateSize,
    groups,
    gate: input(values, 0),
    value: input(values, values),
    write: input(shared, 2 * values),
    read: input(shared, 2 * values + shared),
    step: input(heads, 2 * values + 2 * shared),
    convolution: convolution(parts, index, 'spaceConvolution', values + 2 * shared, {
      length: traits.length,
      bias: traits.convolutionBias,
    }),
    stepBias: vectorSpec(names.bias(index, 'spaceStep'), heads),
    rate: rateSpec(names.weight(index, 'spaceRate'), heads, traits.logarithmicRates),
    skip: vectorSpec(names.weight(index, 'spaceSkip'), heads),
    norm: normNamed(parts.traits, names.weight(index, 'spaceNorm'), values),
    output: linearSpec(names, index, {
      role: 'spaceOutput',
      rows: sizes.hiddenSize,
      columns: values,
      bias: traits.projectionBias,
    }),
  };
}

function convolution(
  { names }: SpecParts,
  index: number,
  role: LayerRole,
  channels: number,
  { length, bias }: ShortConvTraits,
): ConvolutionSpec {
  return {
    weight: vectorSpec(names.weight(index, role), channels * length),
    ...(bias ? { bias: vectorSpec(names.bias(index, role), channels) } : {}),
    length,
  };
}
