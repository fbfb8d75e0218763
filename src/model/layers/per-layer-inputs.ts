// Inputs of single layers: what makes them for all, and the part of one layer that takes its own.

import { linearSpec } from '../linear-spec.ts';
import type { LinearSpec, PartSpec, PerLayerInputsSpec } from '../spec.ts';
import { normNamed, normOf, type SpecParts, tableSpec } from '../spec-parts.ts';

export function perLayerInputsSpec({ sizes, traits, names }: SpecParts): PerLayerInputsSpec | undefined {
  const { perLayerInputSize: size } = traits;
  if (size === undefined) return undefined;
  const { hiddenSize, layerCount: count } = sizes;
  const projection: LinearSpec = {
    leaf: 'linear',
    weight: { tensor: names.model('perLayerInputProjection'), firstRow: 0, rows: count * size },
    columns: hiddenSize,
  };
  // Both parts are added, and halved in their squares.
  const half = Math.SQRT1_2;
  return {
    count,
    size,
    table: tableSpec(
      names.model('perLayerInputTable'),
      traits.perLayerInputRows ?? sizes.vocabSize,
      count * size,
    ),
    tableScale: Math.sqrt(size) * half,
    projection,
    projectionScale: hiddenSize ** -0.5,
    norm: { ...normNamed(traits, names.model('perLayerInputNorm'), size), factor: half },
  };
}

/** Where a layer takes its own. */
export function perLayerInputPart(parts: SpecParts, index: number): PartSpec {
  const { sizes, traits, names } = parts;
  const { hiddenSize } = sizes;
  const size = traits.perLayerInputSize as number;
  return {
    body: {
      kind: 'per-layer-input',
      index,
      activation: traits.activation,
      gate: linearSpec(names, index, { role: 'perLayerInputGate', rows: size, columns: hiddenSize }),
      output: linearSpec(names, index, { role: 'perLayerInputOutput', rows: hiddenSize, columns: size }),
    },
    output: normOf(parts, index, 'perLayerInputPostNorm'),
  };
}
