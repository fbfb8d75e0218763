// Inputs of single layers: what makes them for all, and the branch of one layer that takes its own.

import { linearSpec } from './linear-spec.ts';
import type { BranchSpec, LayerInputsSpec, LinearSpec } from './spec.ts';
import { normNamed, normOf, type SpecParts } from './spec-parts.ts';

export function layerInputsSpec({ sizes, traits, names }: SpecParts): LayerInputsSpec | undefined {
  const { layerInputSize: size } = traits;
  if (size === undefined) return undefined;
  const { hiddenSize, layerCount: count } = sizes;
  const projection: LinearSpec = {
    weight: { tensor: names.model('layerInputProjection'), firstRow: 0, rows: count * size },
    columns: hiddenSize,
  };
  // Both parts are added, and halved in their squares.
  const half = Math.SQRT1_2;
  return {
    count,
    size,
    table: {
      tensor: names.model('layerInputTable'),
      firstRow: 0,
      rows: traits.layerInputRows ?? sizes.vocabSize,
    },
    tableScale: Math.sqrt(size) * half,
    projection,
    projectionScale: hiddenSize ** -0.5,
    norm: { ...normNamed(traits, names.model('layerInputNorm')), factor: half },
  };
}

export function layerInputBranch(parts: SpecParts, index: number): BranchSpec {
  const { sizes, traits, names } = parts;
  const size = traits.layerInputSize as number;
  return {
    parts: [
      {
        body: {
          kind: 'layer-input',
          index,
          activation: traits.activation,
          gate: linearSpec(names, index, { role: 'layerInputGate', rows: size, columns: sizes.hiddenSize }),
          output: linearSpec(names, index, {
            role: 'layerInputOutput',
            rows: sizes.hiddenSize,
            columns: size,
          }),
        },
        output: normOf(parts, index, 'layerInputPostNorm'),
      },
    ],
  };
}
