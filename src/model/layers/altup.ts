// Several residual streams, and the low-rank map beside attention that goes with them.

import { linearSpec } from '../linear-spec.ts';
import type { AltUpSpec, BranchSpec, LayerAltUpSpec, LinearSpec, NormSpec, PartSpec } from '../spec.ts';
import { normOf, type SpecParts, vectorSpec } from '../spec-parts.ts';
import type { ModelRole } from '../tensor-names.ts';
import { perLayerInputPart } from './per-layer-inputs.ts';

export function altUpSpec({ sizes, traits, names }: SpecParts): AltUpSpec | undefined {
  const { streamCount: count } = traits;
  if (count === undefined) return undefined;
  const { hiddenSize } = sizes;
  // A tensor each, or one of all.
  const linears = (role: ModelRole): LinearSpec[] =>
    Array.from({ length: count - 1 }, (_, index) => {
      const own = names.model(role, 0) !== names.model(role, 1);
      const weight = {
        tensor: names.model(role, index),
        firstRow: own ? 0 : index * hiddenSize,
        rows: hiddenSize,
      };
      return { leaf: 'linear', weight, columns: hiddenSize };
    });
  return { count, spread: linears('streamSpread'), gather: linears('streamGather') };
}

export function layerAltUpSpec(parts: SpecParts, index: number): LayerAltUpSpec {
  const { sizes, traits, names } = parts;
  const count = traits.streamCount as number;
  const { hiddenSize } = sizes;
  return {
    norm: { ...normOf(parts, index, 'streamNorm'), factor: 1 / hiddenSize },
    features: linearSpec(names, index, { role: 'streamFeatures', rows: count, columns: hiddenSize }),
    prediction: linearSpec(names, index, { role: 'streamPrediction', rows: count * count, columns: count }),
    correction: linearSpec(names, index, { role: 'streamCorrection', rows: count, columns: count }),
    perLayer: perLayerInputPart(parts, index),
    ...(traits.streamToldScales
      ? { perLayerScale: vectorSpec(names.weight(index, 'streamToldScale'), hiddenSize) }
      : {}),
  };
}

/** Attention and a low-rank map read the same rows; only attention has a norm behind it. */
export function laurelBranch(
  parts: SpecParts,
  index: number,
  attending: PartSpec,
  output: NormSpec | undefined,
): BranchSpec {
  const { sizes, traits, names } = parts;
  const { hiddenSize } = sizes;
  const rank = traits.laurel as number;
  const { input } = attending;
  return {
    parts: [
      { ...attending, ...(output === undefined ? {} : { output }) },
      {
        ...(input === undefined ? {} : { input }),
        body: {
          kind: 'laurel',
          down: linearSpec(names, index, { role: 'laurelDown', rows: rank, columns: hiddenSize }),
          up: linearSpec(names, index, { role: 'laurelUp', rows: hiddenSize, columns: rank }),
          norm: normOf(parts, index, 'laurelNorm'),
        },
      },
    ],
    streamScale: Math.SQRT1_2,
  };
}
