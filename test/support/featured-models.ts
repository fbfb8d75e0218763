// Small random models with any combination of what a spec can say, also what the tiny models' own options cannot.

import fc from 'fast-check';
import type { LayerSpec, ModelSpec, NormSpec, PartSpec } from '../../src/model/spec.ts';
import { attentionsOf } from '../../src/model/spec-walk.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { type TinyExperts, type TinyModel, type TinyModelOptions, tinyModel } from './tiny-model.ts';

interface FeaturedOptions {
  readonly model: TinyModelOptions;
  /** Layers of another model with heads of other sizes follow. */
  readonly other?: TinyModelOptions;
  /** The last attention reads what the first one of the same shape stored. */
  readonly sharedCache?: boolean;
  /** Every part's output is normalized. */
  readonly partNorms?: boolean;
  /** Norms of the residual stream have no weights. */
  readonly bareNorms?: boolean;
}

export function featuredModel({ model, other, ...features }: FeaturedOptions): TinyModel {
  const first = tinyModel(model);
  const { spec, weights } = other === undefined ? first : joined(first, tinyModel(other));
  const shared = features.sharedCache ? withSharedCache(spec) : spec;
  return { spec: mapNorms(shared, features), weights };
}

/** The layers of both, one after the other. */
function joined(first: TinyModel, second: TinyModel): TinyModel {
  const caches = first.spec.caches.length;
  const layers = renamed(second.spec.layers) as LayerSpec[];
  return {
    spec: {
      ...first.spec,
      ropes: [...first.spec.ropes, ...second.spec.ropes],
      caches: [...first.spec.caches, ...second.spec.caches],
      layers: [...first.spec.layers, ...layers.map((layer) => moved(layer, caches, first.spec.ropes.length))],
    },
    weights: together(first.weights, second.weights),
  };
}

const OTHER = 'other.';

/** All names of tensors, wherever they stand. */
function renamed(value: unknown): unknown {
  if (typeof value === 'string') return value.startsWith('layers.') ? OTHER + value : value;
  if (Array.isArray(value)) return value.map(renamed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, renamed(inner)]));
}

function moved(layer: LayerSpec, caches: number, ropes: number): LayerSpec {
  return mapParts(layer, (part) => {
    const { body } = part;
    if (body.kind !== 'attention') return part;
    const rope = body.rope === undefined ? {} : { rope: body.rope + ropes };
    return { ...part, body: { ...body, ...rope, cache: body.cache + caches } };
  });
}

function together(first: WeightSource, second: WeightSource): WeightSource {
  const others = [...second.tensors].map(([name, tensor]) => [OTHER + name, tensor] as const);
  return {
    ...first,
    tensors: new Map([...first.tensors, ...others]),
    readRows(name, from, count, into) {
      if (name.startsWith(OTHER)) second.readRows(name.slice(OTHER.length), from, count, into);
      else first.readRows(name, from, count, into);
    },
  };
}

function withSharedCache(spec: ModelSpec): ModelSpec {
  const attentions = attentionsOf(spec);
  const last = attentions.at(-1);
  const giver = attentions.find(
    (one) => one !== last && JSON.stringify(spec.caches[one.cache]) === JSON.stringify(spec.caches.at(-1)),
  );
  if (last === undefined || giver === undefined) return spec;
  const { stored, ...reader } = last;
  const shared = { ...reader, cache: giver.cache };
  const layers = spec.layers.map((layer) =>
    mapParts(layer, (part) => (part.body === last ? { ...part, body: shared } : part)),
  );
  return { ...spec, layers, caches: spec.caches.slice(0, -1) };
}

function mapNorms(
  spec: ModelSpec,
  { partNorms, bareNorms }: Pick<FeaturedOptions, 'partNorms' | 'bareNorms'>,
): ModelSpec {
  const bare = (norm: NormSpec): NormSpec =>
    bareNorms ? { leaf: 'norm', kind: norm.kind, size: norm.size } : norm;
  const layers = spec.layers.map((layer) =>
    mapParts(layer, (part) => ({
      ...part,
      ...(part.input === undefined ? {} : { input: bare(part.input) }),
      ...(partNorms ? { output: { leaf: 'norm', kind: 'layer', size: spec.hiddenSize } } : {}),
    })),
  );
  return { ...spec, layers, ...(spec.finalNorm && { finalNorm: bare(spec.finalNorm) }) };
}

function mapParts(layer: LayerSpec, change: (part: PartSpec) => PartSpec): LayerSpec {
  return { branches: layer.branches.map((branch) => ({ ...branch, parts: branch.parts.map(change) })) };
}

interface Sizes {
  readonly unit: number;
  readonly hiddenSize: number;
  readonly headSizes: readonly number[];
}

/** What a type's blocks divide; float types take odd sizes too. */
function sizesOf(type: TensorType): Sizes {
  if (type.endsWith('_K')) return { unit: 256, hiddenSize: 256, headSizes: [64] };
  return type.endsWith('F32') || type === 'BF16'
    ? { unit: 20, hiddenSize: 40, headSizes: [8, 24, 80] }
    : { unit: 32, hiddenSize: 64, headSizes: [32, 64] };
}

function experts({ unit }: Sizes): fc.Arbitrary<TinyExperts> {
  const router = fc
    .record(
      {
        score: fc.constantFrom('softmax', 'sigmoid'),
        used: fc.constantFrom(1, 2, 3),
        normalized: fc.boolean(),
        scale: fc.constantFrom(1, 2.5),
        groups: fc.record({
          count: fc.constantFrom(2, 4),
          used: fc.constantFrom(2),
          by: fc.constantFrom('best', 'best-two'),
        }),
      },
      { requiredKeys: ['score', 'used', 'normalized', 'scale'] },
    )
    .map((one) => one as TinyExperts['router']);
  const flag = fc.constant(true);
  return fc.record(
    {
      count: fc.constantFrom(8, 16, 40),
      size: fc.constantFrom(unit, 3 * unit),
      router,
      routingBias: flag,
      expertScales: flag,
      routerNorm: flag,
      scalesInput: flag,
      shared: flag,
    },
    { requiredKeys: ['count', 'size', 'router'] },
  ) as fc.Arbitrary<TinyExperts>;
}

function features(type: TensorType): fc.Arbitrary<TinyModelOptions> {
  const sizes = sizesOf(type);
  const flag = fc.constant(true);
  const sized = fc.record({
    seed: fc.integer({ min: 1, max: 1e6 }),
    layerCount: fc.constantFrom(1, 2, 3),
    // Every type's blocks divide the heads of all queries.
    headCount: fc.constantFrom(4, 8),
    kvHeadCount: fc.constantFrom(1, 2, 4),
    headSize: fc.constantFrom(...sizes.headSizes),
    ffnSize: fc.constantFrom(sizes.unit, 2 * sizes.unit),
    activation: fc.constantFrom('silu', 'gelu-tanh', 'gelu', { limit: 1.5, slope: 1.702 }),
  });
  const chosen = fc.record(
    {
      rotatedValues: fc.constant(8),
      window: fc.constantFrom(5, 33),
      queryKeyNorm: fc.constantFrom(true, 'all'),
      normsAfterRope: flag,
      layerNorms: flag,
      preNorms: fc.constant(false),
      postNorms: flag,
      parallel: flag,
      residualScale: fc.constant(0.4),
      someUnrotated: flag,
      sinks: flag,
      attentionGate: flag,
      valuesAreKeys: flag,
      growth: fc.constant({ weight: 0.1, length: 16, shift: 1 }),
      ungated: flag,
      experts: experts(sizes),
      biases: flag,
      attentionSoftcap: fc.constant(20),
    },
    { requiredKeys: [] },
  );
  return fc
    .tuple(sized, chosen)
    .map(([own, more]) => ({ ...own, ...more, type, hiddenSize: sizes.hiddenSize }) as TinyModelOptions)
    .map((all) => (all.ungated && typeof all.activation !== 'string' ? { ...all, activation: 'gelu' } : all));
}

/** Combinations of everything, for matrices of these types. */
export function featuredModels(types: readonly TensorType[]): fc.Arbitrary<FeaturedOptions> {
  const flag = fc.constant(true);
  const ends = fc.record(
    {
      vocabSize: fc.constantFrom(64, 97),
      tiedHead: flag,
      logitScale: fc.constant(0.25),
      logitSoftcap: fc.constant(10),
    },
    { requiredKeys: ['vocabSize'] },
  );
  return fc.constantFrom(...types).chain(
    (type) =>
      fc.record(
        {
          model: fc.tuple(features(type), ends).map(([own, end]) => ({ ...own, ...end }) as TinyModelOptions),
          other: features(type),
          sharedCache: flag,
          partNorms: flag,
          bareNorms: flag,
        },
        { requiredKeys: ['model'] },
      ) as fc.Arbitrary<FeaturedOptions>,
  );
}
