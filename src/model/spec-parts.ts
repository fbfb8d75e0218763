// What a ModelSpec is put together of.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { readFloats } from '../weights/read-tensor.ts';
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
  readonly textOnly: boolean;
  readonly opened: Pick<OpenedModel, 'path' | 'weights'>;
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

/** The factor on the residual stream behind a layer; 1 where the file holds none. */
export function layerScale({ names, opened }: SpecParts, index: number): number {
  const name = names.weight(index, 'layerScale');
  const tensor = opened.weights.tensors.get(name);
  if (tensor === undefined) return 1;
  const [scale, ...others] = tensor.shape.every((size) => size === 1) ? readFloats(opened.weights, name) : [];
  if (scale !== undefined && others.length === 0 && Number.isFinite(scale)) return scale;
  throw new ModelFileError({
    file: opened.path,
    field: name,
    problem: `must hold one number, but has the shape [${tensor.shape.join(', ')}] or is none`,
    remedy: 'The file is damaged or was converted wrongly; download or convert it again.',
  });
}
