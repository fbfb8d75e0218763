// What a ModelSpec is put together of.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { readFloats } from '../weights/read-tensor.ts';
import type { Architecture, Traits } from './architecture.ts';
import type { ModelSizes } from './sizes.ts';
import type { NormSpec, TableSpec, VectorSpec } from './spec.ts';
import type { ExpertLayout, LayerRole, TensorNames } from './tensor-names.ts';

export interface SpecParts {
  readonly architecture: Architecture;
  readonly sizes: ModelSizes;
  readonly traits: Traits;
  readonly names: TensorNames;
  readonly tiedHead: boolean;
  readonly headless: boolean;
  readonly textOnly: boolean;
  readonly opened: Pick<OpenedModel, 'path' | 'weights'>;
  /** Absent: as the file has them. */
  readonly expertLayout?: ExpertLayout;
}

/** Of the residual stream, where no other size is given. */
export function normOf(
  { traits, names, sizes }: SpecParts,
  index: number,
  role: LayerRole,
  size = sizes.hiddenSize,
): NormSpec {
  return normNamed(traits, names.weight(index, role), size);
}

export function normNamed(
  { norm = 'rms', normBias, normOffset }: Traits,
  weight: string,
  size: number,
): NormSpec {
  return {
    leaf: 'norm',
    kind: norm,
    size,
    weight,
    ...(normBias ? { bias: weight.replace(/weight$/, 'bias') } : {}),
    ...(normOffset === undefined || normOffset === 0 ? {} : { offset: normOffset }),
  };
}

export function tableSpec(tensor: string, rows: number, columns: number): TableSpec {
  return { leaf: 'table', tensor, firstRow: 0, rows, columns };
}

export function vectorSpec(tensor: string, size: number): VectorSpec {
  return { leaf: 'vector', tensor, size };
}

/** Negative numbers: as they are, or by the logarithm of their size. */
export function rateSpec(tensor: string, size: number, isLogarithm: boolean): VectorSpec {
  return { ...vectorSpec(tensor, size), ...(isLogarithm ? { negativeExponential: true } : {}) };
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
