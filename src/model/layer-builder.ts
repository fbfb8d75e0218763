// What a layer is built with: sizes, leaves by the roles of their tensors, and numbers of KV caches and recurrent states.

import {
  type LinearSpec,
  type NormSpec,
  type RowSlice,
  type TableSpec,
  tableSpec,
  type VectorSpec,
  vectorSpec,
} from './leaves.ts';
import type { ModelSource } from './model-source.ts';
import type { RopeSpec } from './rope.ts';
import type { ModelSizes } from './sizes.ts';
import type { RoleTensors, TensorNames, UsualNames } from './tensor-names.ts';

/** What one block of the KV cache holds of each token for one attention; several may read it. */
export interface CacheSpec {
  readonly headCount: number;
  readonly headSize: number;
  /** Values are the first N of each key, and keys are all that is stored; absent: they are as large as keys. */
  readonly valuesInKeys?: number;
}

/** Values that a layer without KV keeps of all tokens before. */
export interface RecurrentStateSpec {
  readonly size: number;
}

export interface NormOptions {
  /** `rms` where absent. */
  readonly kind?: NormSpec['kind'];
  readonly bias?: boolean;
  readonly offset?: number;
}

/** What the layers of one model share. Caches and recurrent states are numbered in the order of their layers. */
export interface SharedParts {
  readonly source: ModelSource;
  readonly names: TensorNames;
  readonly normOptions: NormOptions;
  readonly ropes: readonly RopeSpec[];
  readonly caches: CacheSpec[];
  readonly recurrentStates: RecurrentStateSpec[];
}

interface LinearShape extends Omit<RowSlice, 'tensor' | 'firstRow'> {
  readonly columns: number;
  readonly firstRow?: number;
  readonly bias?: boolean | undefined;
  readonly adaptable?: false;
  readonly members?: number;
  /** Of an expert or stream, where each has a tensor of its own. */
  readonly number?: number;
}

/** Leaves whose tensors have names in one table. */
export class Leaves<Role extends string> {
  readonly names: RoleTensors<Role>;
  readonly #normOptions: NormOptions;

  constructor(names: RoleTensors<Role>, normOptions: NormOptions) {
    this.names = names;
    this.#normOptions = normOptions;
  }

  linear(role: Role, shape: LinearShape): LinearSpec {
    const { columns, firstRow = 0, bias, number, adaptable, members, ...rows } = shape;
    const { transposed: _, ...biasRows } = rows;
    return defined({
      leaf: 'linear',
      weight: { tensor: this.names.weight(role, number), firstRow, ...rows },
      columns,
      bias: bias ? { tensor: this.names.bias(role, number), firstRow, ...biasRows } : undefined,
      adaptable,
      members,
    });
  }

  norm(role: Role, size: number): NormSpec {
    return normSpec(this.#normOptions, this.names.weight(role), size);
  }

  vector(role: Role, size: number): VectorSpec {
    return vectorSpec(this.names.weight(role), size);
  }

  biasVector(role: Role, size: number): VectorSpec {
    return vectorSpec(this.names.bias(role), size);
  }

  table(role: Role, rows: number, columns: number): TableSpec {
    return tableSpec(this.names.weight(role), rows, columns);
  }
}

/** Of what is there once for all layers. */
export function modelLeaves<Role extends string>(
  { names, normOptions }: SharedParts,
  roles: UsualNames<Role>,
): Leaves<Role> {
  return new Leaves(names.model(roles), normOptions);
}

export function normSpec(
  { kind = 'rms', bias, offset = 0 }: NormOptions,
  weight: string,
  size: number,
): NormSpec {
  return {
    leaf: 'norm',
    kind,
    size,
    weight,
    ...(bias ? { bias: weight.replace(/weight$/, 'bias') } : {}),
    ...(offset === 0 ? {} : { offset }),
  };
}

const normNames = {
  attentionNorm: { hub: 'input_layernorm', gguf: 'attn_norm' },
  ffnNorm: { hub: 'post_attention_layernorm', gguf: 'ffn_norm' },
  attentionPostNorm: { gguf: 'post_attention_norm' },
  ffnPostNorm: { gguf: 'post_ffw_norm' },
};

/** Whose tensors it is: those of a layer, of the layer of an MTP head, or of that head beside its layer. */
type LayerOwner = 'layer' | 'mtpLayer' | 'mtp';

export class LayerBuilder {
  readonly index: number;
  readonly shared: SharedParts;
  readonly sizes: ModelSizes;
  readonly #owner: LayerOwner;

  constructor(shared: SharedParts, index: number, owner: LayerOwner = 'layer') {
    this.shared = shared;
    this.sizes = shared.source.sizes;
    this.index = index;
    this.#owner = owner;
  }

  leaves<Role extends string>(names: UsualNames<Role>, normOptions?: NormOptions): Leaves<Role> {
    const own = this.shared.names[this.#owner](this.index, names);
    return new Leaves(own, normOptions ?? this.shared.normOptions);
  }

  norm(role: keyof typeof normNames): NormSpec {
    return this.leaves(normNames).norm(role, this.sizes.hiddenSize);
  }

  addCache(cache: CacheSpec): number {
    return this.shared.caches.push(cache) - 1;
  }

  addRecurrentState(state: RecurrentStateSpec): number {
    return this.shared.recurrentStates.push(state) - 1;
  }
}

type Defined<T> = { readonly [Key in keyof T as undefined extends T[Key] ? never : Key]: T[Key] } & {
  readonly [Key in keyof T as undefined extends T[Key] ? Key : never]?: Exclude<T[Key], undefined>;
};

export function defined<const T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}
