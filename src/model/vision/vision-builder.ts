// What families build a VisionSpec with: leaves by the names that publishers give them, and settings of preprocessing.

import { kernelMatrix } from '../../weights/vision-files.ts';
import { configError, fieldOf, isRecord, optionalSize, positive, size } from '../config.ts';
import { defined } from '../layer-builder.ts';
import type { LinearSpec, NormSpec, RowSlice, TableSpec, VectorSpec } from '../leaves.ts';
import { tableSpec, vectorSpec } from '../leaves.ts';
import type { Filter, PreprocessingSpec, ViewRule } from './preprocessing.ts';
import type { VisionSource } from './vision-source.ts';
import type { PatchStep, VisionSpec } from './vision-spec.ts';

export interface VisionFamily {
  /** `model_type` values of config.json. */
  readonly modelTypes: readonly string[];
  /** `clip.projector_type` values of GGUF projector files. */
  readonly projectors: readonly string[];
  build(source: VisionSource): VisionSpec;
}

/** What a tensor is called on the hub, after the tower's prefix, and in projector files. */
export interface TowerName {
  readonly hub?: string;
  readonly gguf?: string;
}

interface LinearShape extends Omit<RowSlice, 'tensor' | 'firstRow' | 'rows'> {
  readonly firstRow?: number;
}

export interface TowerSizes {
  readonly hiddenSize: number;
  readonly ffnSize: number;
  readonly layerCount: number;
  readonly headCount: number;
  readonly headSize: number;
  readonly patchSize: number;
  readonly epsilon: number;
}

export class VisionBuilder {
  readonly source: VisionSource;
  readonly #prefix: string;

  /** `prefixes` that the hub's names may have, the first of them that is there counts. */
  constructor(source: VisionSource, prefixes: readonly string[]) {
    const names = [...source.weights.tensors.keys()];
    this.source = source;
    this.#prefix =
      prefixes.find((prefix) => names.some((name) => name.startsWith(prefix))) ?? prefixes[0] ?? '';
  }

  /** Names without an ending, which is `.weight` or `.bias`. */
  name({ hub = '', gguf = '' }: TowerName, layer?: number): string {
    const name = this.source.naming === 'gguf' ? gguf : this.#prefix + hub;
    return layer === undefined ? name : name.replace('*', String(layer));
  }

  has(tensor: string): boolean {
    return this.source.weights.tensors.has(tensor);
  }

  /** A bias counts where the file has one. */
  linear(
    name: string,
    rows: number,
    columns: number,
    { firstRow = 0, ...shape }: LinearShape = {},
  ): LinearSpec {
    const slice = { firstRow, rows, ...shape };
    const { transposed: _, ...biasSlice } = slice;
    return defined({
      leaf: 'linear',
      weight: { tensor: `${name}.weight`, ...slice },
      columns,
      bias: this.has(`${name}.bias`) ? { tensor: `${name}.bias`, ...biasSlice } : undefined,
      adaptable: false,
    });
  }

  /** A kernel of a convolution, each of whose steps reads cells that no other reads. */
  kernel(name: string, rows: number, columns: number): LinearSpec {
    const { weight, ...rest } = this.linear(name, rows, columns);
    return { ...rest, weight: { ...weight, tensor: kernelMatrix(weight.tensor) } };
  }

  rmsNorm(name: string, size: number): NormSpec {
    return { leaf: 'norm', kind: 'rms', size, weight: `${name}.weight` };
  }

  layerNorm(name: string, size: number): NormSpec {
    return { leaf: 'norm', kind: 'layer', size, weight: `${name}.weight`, bias: `${name}.bias` };
  }

  table(name: string, rows: number, columns: number): TableSpec {
    return tableSpec(name, rows, columns);
  }

  vector(name: string, size: number): VectorSpec {
    return vectorSpec(name, size);
  }

  sizes(): TowerSizes {
    const { config } = this.source;
    const hiddenSize = size(config, 'hidden_size');
    const headCount = size(config, 'num_attention_heads');
    const layerCount = size(config, 'num_hidden_layers');
    const headSize = optionalSize(config, 'head_dim') ?? hiddenSize / headCount;
    if (!Number.isInteger(headSize)) {
      throw configError(config, 'hidden_size', `${hiddenSize} does not split into ${headCount} heads`);
    }
    if (layerCount > this.source.weights.tensors.size) {
      throw configError(
        config,
        'num_hidden_layers',
        `claims ${layerCount} layers, more than there are tensors`,
      );
    }
    return {
      hiddenSize,
      headCount,
      headSize,
      layerCount,
      ffnSize: size(config, 'intermediate_size'),
      patchSize: size(config, 'patch_size'),
      epsilon: positive(config, 'layer_norm_eps'),
    };
  }

  /** A linear map of patches, whatever it is stored as: a kernel in two or three dimensions, or a matrix. */
  patches(
    name: string,
    { hiddenSize, patchSize: size }: Pick<TowerSizes, 'hiddenSize' | 'patchSize'>,
  ): PatchStep {
    const tensor = this.source.weights.tensors.get(`${name}.weight`);
    const shape = tensor?.shape ?? [];
    const inner = shape.slice(1).reduce((product, one) => product * one, 1);
    const frames = Math.max(1, Math.round(inner / (3 * size * size)));
    const isLast = shape.length === 2 || shape.at(-1) === 3;
    const linear =
      shape.length === 2
        ? this.linear(name, hiddenSize, inner)
        : this.kernel(name, hiddenSize, 3 * frames * size * size);
    // Projector files have a kernel for each of two frames.
    const second = `${name}.weight.1`;
    const others = this.has(second)
      ? [
          {
            leaf: 'linear',
            weight: { ...linear.weight, tensor: kernelMatrix(second) },
            columns: linear.columns,
          } as const,
        ]
      : [];
    const order = isLast ? 'channels-last' : 'channels-first';
    return { kind: 'patches', size, order, frames, linears: [linear, ...others] };
  }

  preprocessing(views: ViewRule, usual: Filter = 'bicubic'): PreprocessingSpec {
    const { settings } = this.source;
    const filter = fieldOf(settings, 'resample') ?? usual;
    const known = filters[String(filter)];
    if (known === undefined) throw configError(settings, 'resample', `${String(filter)} is not supported`);
    return { views, filter: known, mean: this.#colours('image_mean'), deviation: this.#colours('image_std') };
  }

  #colours(field: 'image_mean' | 'image_std'): readonly [number, number, number] {
    const { settings } = this.source;
    const value = fieldOf(settings, field);
    const isNumber = (one: unknown) => typeof one === 'number' && Number.isFinite(one);
    if (Array.isArray(value) && value.length === 3 && value.every(isNumber)) {
      const [red, green, blue] = value as number[];
      const isDeviation = field === 'image_std';
      if (!isDeviation || value.every((one) => one > 0))
        return [red as number, green as number, blue as number];
    }
    throw configError(settings, field, 'must be three numbers, one for each colour');
  }
}

/** As Pillow numbers them, and by their own names. */
const filters: Readonly<Record<string, Filter>> = {
  1: 'lanczos',
  2: 'bilinear',
  3: 'bicubic',
  lanczos: 'lanczos',
  bilinear: 'bilinear',
  bicubic: 'bicubic',
};

/** A field of `size`, `crop_size` and the like. */
export function sizeField(
  { settings }: Pick<VisionSource, 'settings'>,
  field: string,
  inner: string,
): number | undefined {
  const value = fieldOf(settings, field);
  if (!isRecord(value) || value[inner] === undefined || value[inner] === null) return undefined;
  const spelled = `${field}.${inner}`;
  return optionalSize({ ...settings, fields: { [spelled]: value[inner] } }, spelled);
}
