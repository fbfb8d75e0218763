// A model with adapters: its spec says what each adds to which linear map, its weights hold their tensors beside its own.

import type { AdapterFiles, AdapterPair } from '../weights/adapter-files.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { requireTensor } from '../weights/read-tensor.ts';
import { rowsOf, type WeightSource } from '../weights/weight-source.ts';
import type { AdditionSpec, BodySpec, LinearSpec, ModelSpec, PartSpec } from './spec.ts';

export interface NamedAdapter {
  readonly name: string;
  readonly files: AdapterFiles;
}

export interface AdaptedModel {
  readonly spec: ModelSpec;
  /** Closes the adapters, too. */
  readonly weights: WeightSource;
}

type Source = Pick<OpenedModel, 'format' | 'path' | 'weights'>;

/** Every matrix of every adapter must have found its place, and fit. */
export function withAdapters(
  spec: ModelSpec,
  model: Source,
  adapters: readonly NamedAdapter[],
): AdaptedModel {
  if (adapters.length === 0) return { spec, weights: model.weights };
  const places = adapters.map(({ files }, index) => new Places(index, model, files));
  const layers = spec.layers.map((layer) => ({
    ...layer,
    branches: layer.branches.map((branch) => ({
      ...branch,
      parts: branch.parts.map((part) => adaptPart(part, (linear) => withAdditions(linear, places))),
    })),
  }));
  for (const one of places) one.refuseUnplaced();
  return {
    spec: { ...spec, layers, adapters: adapters.map(({ name }) => name) },
    weights: joinWeights(model.weights, adapters),
  };
}

function withAdditions(linear: LinearSpec, places: readonly Places[]): LinearSpec {
  const additions = places.flatMap((one) => one.additionTo(linear) ?? []);
  return additions.length === 0 ? linear : { ...linear, additions };
}

/** Takes adapter tensors by the names of the model's. */
class Places {
  readonly #adapter: number;
  readonly #weights: WeightSource;
  readonly #files: AdapterFiles;
  readonly #pairs: ReadonlyMap<string, AdapterPair>;
  readonly #taken = new Set<string>();

  constructor(adapter: number, { format, path, weights }: Source, files: AdapterFiles) {
    this.#adapter = adapter;
    this.#weights = weights;
    this.#files = files;
    if ((format === 'gguf') !== (files.format === 'gguf')) {
      throw new ModelFileError({
        file: files.path,
        field: 'path',
        problem: `is an adapter in ${files.format}, but ${path} is a model in ${format}`,
        remedy: 'Convert one of them: matrices are named and sorted differently.',
      });
    }
    this.#pairs = new Map(files.pairs.map((pair) => [plainName(pair.target), pair]));
  }

  additionTo({ weight, columns }: LinearSpec): AdditionSpec | undefined {
    const pair = this.#pairs.get(plainName(weight.tensor));
    if (pair === undefined || weight.transposed !== undefined) return undefined;
    this.#taken.add(pair.target);
    const prefix = tensorPrefix(this.#adapter);
    const { rank, scale } = pair;
    const rows = rowsOf(requireTensor(this.#weights, weight.tensor));
    this.#refuseOtherShape(pair.down, [rank, columns]);
    this.#refuseOtherShape(pair.up, [rows, rank]);
    if (pair.magnitude !== undefined) this.#refuseOtherShape(pair.magnitude, [rows]);
    return {
      adapter: this.#adapter,
      rank,
      scale,
      down: { tensor: prefix + pair.down, firstRow: 0, rows: rank },
      // Rows of a fused tensor, and rows in the order of pairs, are so in the adapter, too.
      up: { ...weight, tensor: prefix + pair.up },
      ...(pair.magnitude === undefined ? {} : { magnitude: { ...weight, tensor: prefix + pair.magnitude } }),
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
      problem: `${left.target} is no matrix of this model that takes adapters (those of attention, of layers with a memory and of feed-forwards that all tokens use)`,
      remedy: 'Use it with the model it was trained for, or merge it into that model.',
    });
  }
}

/** Text models inside of multimodal checkpoints, and bodies saved alone, differ in what stands before their layers. */
function plainName(tensor: string): string {
  return tensor.replace(/^(?:model\.)?(?:language_model\.)?(?:model\.)?(?=layers\.)/, '');
}

function adaptPart(part: PartSpec, adapt: (linear: LinearSpec) => LinearSpec): PartSpec {
  return { ...part, body: adaptBody(part.body, adapt) };
}

/** Linear maps that every row passes. */
function adaptBody(body: BodySpec, adapt: (linear: LinearSpec) => LinearSpec): BodySpec {
  const maybe = (linear: LinearSpec | undefined) => linear && adapt(linear);
  switch (body.kind) {
    case 'attention': {
      const { stored, gate } = body;
      const value = maybe(stored?.value);
      return {
        ...body,
        query: adapt(body.query),
        ...(stored && { stored: { ...stored, key: adapt(stored.key), ...(value && { value }) } }),
        ...(gate && { gate: adapt(gate) }),
        output: adapt(body.output),
      };
    }
    case 'latent-attention': {
      const { queryInput } = body;
      return {
        ...body,
        ...(queryInput && { queryInput: { ...queryInput, down: adapt(queryInput.down) } }),
        query: adapt(body.query),
        queryRotated: adapt(body.queryRotated),
        latent: adapt(body.latent),
        keyRotated: adapt(body.keyRotated),
        output: adapt(body.output),
      };
    }
    case 'feed-forward': {
      const { gate } = body;
      return { ...body, ...(gate && { gate: adapt(gate) }), up: adapt(body.up), down: adapt(body.down) };
    }
    case 'delta-net':
      return {
        ...body,
        query: adapt(body.query),
        key: adapt(body.key),
        value: adapt(body.value),
        share: adapt(body.share),
        decay: adapt(body.decay),
        gate: adapt(body.gate),
        output: adapt(body.output),
      };
    case 'short-convolution':
      return {
        ...body,
        before: adapt(body.before),
        after: adapt(body.after),
        value: adapt(body.value),
        output: adapt(body.output),
      };
    case 'state-space':
      return {
        ...body,
        value: adapt(body.value),
        write: adapt(body.write),
        read: adapt(body.read),
        step: adapt(body.step),
        gate: adapt(body.gate),
        output: adapt(body.output),
      };
    case 'experts':
    case 'layer-input':
    case 'low-rank':
      return body;
  }
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
