// What a ModelSpec is put together of.

import type { Architecture, Traits } from './architecture.ts';
import type { ModelSizes } from './sizes.ts';
import type { NormSpec } from './spec.ts';
import type { LayerRole, TensorNames } from './tensor-names.ts';

export interface SpecParts {
  readonly architecture: Architecture;
  readonly sizes: ModelSizes;
  readonly traits: Traits;
  readonly names: TensorNames;
  readonly tiedHead: boolean;
  readonly headless: boolean;
}

export function normOf({ traits, names }: SpecParts, index: number, role: LayerRole): NormSpec {
  return normNamed(traits, names.weight(index, role));
}

export function normNamed({ norm = 'rms', normBias, normOffset }: Traits, weight: string): NormSpec {
  return {
    kind: norm,
    weight,
    ...(normBias ? { bias: weight.replace(/weight$/, 'bias') } : {}),
    ...(normOffset === undefined || normOffset === 0 ? {} : { offset: normOffset }),
  };
}
