// A model with adapters: its spec says what each adds to which linear map, its weights hold their tensors with its own.

import type { AdapterFiles, AdapterPair } from '../weights/adapter-files.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { requireTensor, type WeightSource } from '../weights/weight-source.ts';
import { type ExpertPlace, mapLinears } from './adaptable-linears.ts';
import { layoutOf, type MatrixLayout, publishedLayouts } from './published-layouts.ts';
import type { AdditionSpec, EmbeddingAdditionSpec, LinearSpec, ModelSpec } from './spec.ts';
import { isHeadTied } from './spec-walk.ts';

export interface NamedAdapter {
  readonly name: string;
  readonly files: AdapterFiles;
}

interface AdaptedModel {
  readonly spec: ModelSpec;
  /** Closes the adapters, too. */
  readonly weights: WeightSource;
}

/** Every matrix of every adapter must have found its place, and fit. */
export function withAdapters(
  spec: ModelSpec,
  model: OpenedModel,
  adapters: readonly NamedAdapter[],
): AdaptedModel {
  if (adapters.length === 0) return { spec, weights: model.weights };
  const layouts = knownLayouts(spec, model);
  const places = adapters.map(({ files }, index) => new Places(index, files, layouts(files.format)));
  const adapted = mapLinears(spec, (linear, place, expert) => {
    const additions = places.flatMap((one) => one.additionTo(linear, place, expert) ?? []);
    return additions.length === 0 ? linear : { ...linear, additions };
  });
  const tables = places.flatMap((one) => one.embeddingAddition(spec) ?? []);
  const tied = isHeadTied(spec) ? places.flatMap((one) => one.tiedAddition(spec) ?? []) : [];
  for (const one of places) one.refuseUnplaced();
  return {
    spec: {
      ...adapted,
      adapters: adapters.map(({ name }) => name),
      ...(tables.length === 0 ? {} : { embeddingAdditions: tables }),
      ...(tied.length === 0 ? {} : { head: withMore(adapted.head, tied) }),
    },
    weights: joinWeights(model.weights, adapters),
  };
}

/** How adapters of a format may name and sort the model's matrices: like the model's own file first. */
function knownLayouts(
  spec: ModelSpec,
  model: OpenedModel,
): (format: AdapterFiles['format']) => readonly MatrixLayout[] {
  const known = new Map<AdapterFiles['format'], readonly MatrixLayout[]>();
  return (format) => {
    const isOwn = (format === 'gguf') === (model.format === 'gguf');
    const publishers = format === 'gguf' ? (['gguf'] as const) : (['hugging-face', 'mlx'] as const);
    const all = known.get(format) ?? [
      ...(isOwn ? [layoutOf(spec)] : []),
      ...publishers.flatMap((publisher) => publishedLayouts(model, publisher)),
    ];
    known.set(format, all);
    return all;
  };
}

class Places {
  readonly #adapter: number;
  readonly #files: AdapterFiles;
  readonly #layouts: readonly MatrixLayout[];
  readonly #pairs: ReadonlyMap<string, AdapterPair>;
  readonly #taken = new Set<string>();

  constructor(adapter: number, files: AdapterFiles, layouts: readonly MatrixLayout[]) {
    this.#adapter = adapter;
    this.#files = files;
    this.#layouts = layouts;
    this.#pairs = new Map(files.pairs.map((pair) => [plainName(pair.target), pair]));
  }

  additionTo(
    { weight: { rows }, columns }: LinearSpec,
    place: string,
    expert: ExpertPlace | undefined,
  ): AdditionSpec | undefined {
    for (const { linears, rowsOf } of this.#layouts) {
      const named = linears.get(place);
      if (named?.weight.rows !== rows || named.columns !== columns || named.weight.transposed) continue;
      const pair = this.#pairs.get(plainName(named.weight.tensor));
      if (pair === undefined || pair.embedding !== undefined) continue;
      const tensorRows = rowsOf(named.weight.tensor) ?? rows;
      // Experts that have a tensor of their own stand in it alone.
      return this.#addition(pair, named, tensorRows, tensorRows === rows ? undefined : expert);
    }
    return undefined;
  }

  /** `tensorRows` is of the whole tensor that the adapter was trained for; `expert` is the one among those that it stacks. */
  #addition(
    pair: AdapterPair,
    { weight, columns }: LinearSpec,
    tensorRows: number,
    expert: ExpertPlace | undefined,
  ): AdditionSpec {
    this.#taken.add(pair.target);
    const prefix = tensorPrefix(this.#adapter);
    const { rank, scale } = pair;
    const { index = 0, count = 1 } = expert ?? {};
    const stack = expert === undefined ? [] : [count];
    this.#refuseOtherShape(pair.down, [...stack, rank, columns]);
    this.#refuseOtherShape(pair.up, [...stack, tensorRows / count, rank]);
    if (pair.magnitude !== undefined) this.#refuseOtherShape(pair.magnitude, [...stack, tensorRows / count]);
    if (pair.base !== undefined) this.#refuseOtherShape(pair.base, [tensorRows, columns]);
    return {
      adapter: this.#adapter,
      rank,
      scale,
      down: { tensor: prefix + pair.down, firstRow: index * rank, rows: rank },
      // Rows of a fused tensor, and rows in the order of pairs, are so in the adapter, too.
      up: { ...weight, tensor: prefix + pair.up },
      ...(pair.magnitude === undefined ? {} : { magnitude: { ...weight, tensor: prefix + pair.magnitude } }),
    };
  }

  embeddingAddition({ vocabSize, hiddenSize }: ModelSpec): EmbeddingAdditionSpec | undefined {
    const pair = this.#embeddingPair();
    if (pair?.embedding === undefined) return undefined;
    this.#taken.add(pair.target);
    const { rank, scale, embedding, base } = pair;
    this.#refuseOtherShape(pair.down, embedding.byToken ? [vocabSize, rank] : [rank, vocabSize]);
    this.#refuseOtherShape(pair.up, [hiddenSize, rank]);
    if (base !== undefined) this.#refuseOtherShape(base, [vocabSize, hiddenSize]);
    const { table, up } = this.#tableSlices(pair, vocabSize, hiddenSize);
    return {
      adapter: this.#adapter,
      rank,
      scale,
      table: { leaf: 'table', ...table, columns: rank },
      up: { leaf: 'linear', weight: up, columns: rank },
    };
  }

  tiedAddition({ vocabSize, hiddenSize }: ModelSpec): AdditionSpec | undefined {
    const pair = this.#embeddingPair();
    if (pair?.embedding?.tied !== true) return undefined;
    const { rank, scale } = pair;
    const { table, up } = this.#tableSlices(pair, vocabSize, hiddenSize);
    const down = { tensor: up.tensor, firstRow: 0, rows: rank, transposed: { rows: rank } };
    return { adapter: this.#adapter, rank, scale, down, up: table };
  }

  #embeddingPair(): AdapterPair | undefined {
    const pairs = this.#layouts.map(({ embedding }) => this.#pairs.get(plainName(embedding)));
    return pairs.find((pair) => pair?.embedding !== undefined);
  }

  #tableSlices({ down, up, embedding }: AdapterPair, vocabSize: number, hiddenSize: number) {
    const prefix = tensorPrefix(this.#adapter);
    const turned = embedding?.byToken === true ? {} : { transposed: { rows: vocabSize } };
    return {
      table: { tensor: prefix + down, firstRow: 0, rows: vocabSize, ...turned },
      up: { tensor: prefix + up, firstRow: 0, rows: hiddenSize },
    };
  }

  #refuseOtherShape(name: string, wanted: readonly number[]): void {
    const { shape } = requireTensor(this.#files.weights, name);
    if (shape.length === wanted.length && wanted.every((size, index) => size === shape[index])) return;
    throw new ModelFileError({
      file: this.#files.path,
      field: name,
      problem: `has the shape [${shape.join(', ')}] where the model needs [${wanted.join(', ')}]`,
      remedy: 'The adapter was trained for another model.',
    });
  }

  refuseUnplaced(): void {
    const left = this.#files.pairs.find(({ target }) => !this.#taken.has(target));
    if (left === undefined) return;
    throw new ModelFileError({
      file: this.#files.path,
      field: left.down,
      problem: `${left.target} is no matrix of this model that takes adapters (those of attention, of layers with a recurrent state, of feed-forwards, experts and their routers, embeddings and the head)`,
      remedy: 'Use it with the model it was trained for, or merge it into that model.',
    });
  }
}

/** Text models inside of multimodal checkpoints, and bodies saved alone, differ in what stands before their layers. */
function plainName(tensor: string): string {
  return tensor.replace(
    /^(?:model\.)?(?:language_model\.)?(?:model\.)?(?=(?:layers|embed_tokens|lm_head)\.)/,
    '',
  );
}

function withMore(linear: LinearSpec, additions: readonly AdditionSpec[]): LinearSpec {
  return { ...linear, additions: [...(linear.additions ?? []), ...additions] };
}

/** No tensor of a model begins so. */
function tensorPrefix(adapter: number): string {
  return `adapter ${adapter}: `;
}

function joinWeights(base: WeightSource, adapters: readonly NamedAdapter[]): WeightSource {
  const tensors = new Map(base.tensors);
  const owners = new Map<string, { readonly weights: WeightSource; readonly own: string }>();
  for (const [index, { files }] of adapters.entries()) {
    for (const [own, info] of files.weights.tensors) {
      const name = tensorPrefix(index) + own;
      tensors.set(name, { ...info, name });
      owners.set(name, { weights: files.weights, own });
    }
  }
  return {
    tensors,
    readRows(name, first, count, into) {
      const owner = owners.get(name);
      if (owner === undefined) base.readRows(name, first, count, into);
      else owner.weights.readRows(owner.own, first, count, into);
    },
    close() {
      base.close();
      for (const { files } of adapters) files.weights.close();
    },
  };
}
