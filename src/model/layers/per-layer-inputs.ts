// Inputs of single layers: what makes them for all, and the part of one layer that takes its own.

import { linearSpec } from '../linear-spec.ts';
import type { LayerInputsSpec, LinearSpec, PartSpec } from '../spec.ts';
import { normNamed, normOf, type SpecParts, tableSpec } from '../spec-parts.ts';

export function layerInputsSpec({ sizes, traits, names }: SpecParts): LayerInputsSpec | undefined {
  const { layerInputSize: size } = traits;
  if (size === undefined) return undefined;
  const { hiddenSize, layerCount: count } = sizes;
  const projection: LinearSpec = {
    leaf: 'linear',
    weight: { tensor: names.model('layerInputProjection'), firstRow: 0, rows: count * size },
    columns: hiddenSize,
  };
  // Both parts are added, and halved in their squares.
  const half = Math.SQRT1_2;
  return {
    count,
    size,
    table: tableSpec(names.model('layerInputTable'), traits.layerInputRows ?? sizes.vocabSize, count * size),
    tableScale: Math.sqrt(size) * half,
    projection,
    projectionScale: hiddenSize ** -0.5,
    norm: { ...normNamed(traits, names.model('layerInputNorm'), size), factor: half },
  };
}

/** Where a layer takes its own. */
export function layerInputPart(parts: SpecParts, index: number): PartSpec {
  const { sizes, traits, names } = parts;
  const { hiddenSize } = sizes;
  const size = traits.layerInputSize as number;
  return {
    body: {
      kind: 'layer-input',
      index,
      activation: traits.activation,
      gate: linearSpec(names, index, { role: 'layerInputGate', rows: size, columns: hiddenSize }),
      output: linearSpec(names, index, { role: 'layerInputOutput', rows: hiddenSize, columns: size }),
    },
    output: normOf(parts, index, 'layerInputPostNorm'),
  };
}
