// Models with much in each, so that few of them have layers of every kind.

import type { KvType } from '../../src/compute/backend.ts';
import { tableSpec } from '../../src/model/leaves.ts';
import type { AttentionSpec, BodySpec, MlaSpec, ModelSpec, PartSpec } from '../../src/model/spec.ts';
import { linear, rms } from '../support/leaves.ts';
import { type TinyModel, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';
import { withTensors } from '../support/with-tensors.ts';

export interface NamedModel {
  readonly name: string;
  readonly kvType: KvType;
  make(): TinyModel;
}

const sizes: TinyModelOptions = {
  hiddenSize: 32,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 8,
  ffnSize: 36,
  vocabSize: 64,
};

/** Heads of the usual size, whose kernels other models have compiled. */
const { headSize: _, ...usualHeads } = sizes;

const expertSizes: TinyModelOptions = { ...usualHeads, layerCount: 1 };

const byOptions: Readonly<Record<string, TinyModelOptions>> = {
  'no feature at all': {},
  'a window and norms of queries and keys': { window: 6, queryKeyNorm: true, layerCount: 3 },
  'biases, fused matrices, partly rotated': { biases: true, fused: true, rotatedValues: 8 },
  'what gemma has': {
    postNorms: true,
    queryKeyNorm: true,
    activation: 'gelu-tanh',
    normOffset: 1,
    embeddingScale: 8,
    window: 7,
    attentionSoftcap: 5,
    logitSoftcap: 3,
    tiedHead: true,
  },
  'heads of 80, one shared': { headSize: 80, headCount: 3, kvHeadCount: 1, interleaved: true },
  'attention and feed-forward in one branch, with norms, gates, sinks and growth': {
    ...sizes,
    parallel: true,
    layerNorms: true,
    biases: true,
    residualScale: 0.7,
    logitScale: 0.25,
    someUnrotated: true,
    queryKeyNorm: 'all',
    normsAfterRope: true,
    rotatedValues: 4,
    sinks: true,
    attentionGate: true,
    growth: { weight: 0.3, length: 20, shift: 1 },
    activation: 'gelu',
    ungated: true,
  },
  'experts chosen by a softmax, and a shared expert with a gate': {
    ...expertSizes,
    biases: true,
    residualScale: 0.6,
    experts: {
      count: 9,
      size: 20,
      router: { score: 'softmax', used: 3, normalized: true, scale: 1.5 },
      expertScales: true,
      shared: true,
    },
  },
  'experts chosen by a sigmoid and a routing bias from the best groups': {
    ...expertSizes,
    seed: 2,
    ungated: true,
    experts: {
      count: 12,
      size: 20,
      router: {
        score: 'sigmoid',
        used: 4,
        normalized: true,
        scale: 2.5,
        groups: { count: 4, used: 2, by: 'best-two' },
      },
      routingBias: true,
    },
  },
  'experts whose input is scaled, and a router with a norm of its own': {
    ...expertSizes,
    layerNorms: true,
    postNorms: true,
    activation: { limit: 1, slope: 1.7 },
    experts: {
      count: 6,
      size: 24,
      router: {
        score: 'sigmoid',
        used: 2,
        normalized: false,
        scale: 1,
        groups: { count: 3, used: 1, by: 'best' },
      },
      routerNorm: true,
      scalesInput: true,
    },
  },
};

/** Changes every part of every layer. */
function eachPart(spec: ModelSpec, change: (part: PartSpec, layer: number) => PartSpec): ModelSpec {
  return {
    ...spec,
    layers: spec.layers.map(({ branches }, layer) => ({
      branches: branches.map((branch) => ({
        ...branch,
        parts: branch.parts.map((part) => change(part, layer)),
      })),
    })),
  };
}

function eachAttention(
  spec: ModelSpec,
  change: (one: AttentionSpec, layer: number) => AttentionSpec,
): ModelSpec {
  return eachPart(spec, (part, layer) =>
    part.body.kind === 'attention' ? { ...part, body: change(part.body, layer) } : part,
  );
}

function severalShapes(): TinyModel {
  const model = tinyModel({
    ...sizes,
    layerCount: 3,
    valuesAreKeys: true,
    queryKeyNorm: true,
    preNorms: false,
    postNorms: true,
    residualScale: 0.5,
    activation: { limit: 0.8, slope: 1.7 },
    window: 20,
    attentionSoftcap: 5,
    sinks: true,
  });
  const { caches } = model.spec;
  // Heads twice as many and half as large in the second layer, out of the same tensors.
  const reshaped = eachAttention(model.spec, (attention, layer) => {
    if (layer !== 1) return attention;
    const { queryNorm: _, sinks: __, stored, rope: ___, ...rest } = attention;
    const { keyNorm: ____, ...kept } = stored ?? { key: rest.query };
    return { ...rest, headCount: 8, headSize: 4, stored: kept };
  });
  const normed = eachPart(reshaped, (part, layer) => ({
    ...part,
    output: { ...rms(32, 'final.norm'), kind: layer === 0 ? 'layer' : 'rms' },
  }));
  const spec = {
    ...normed,
    caches: caches.map((cache, index) => (index === 1 ? { headCount: 4, headSize: 4 } : cache)),
  };
  return { ...model, spec };
}

function sharedCache(): TinyModel {
  const model = tinyModel({
    ...sizes,
    hiddenSize: 64,
    headSize: 16,
    ffnSize: 64,
    type: 'Q8_0',
    queryKeyNorm: 'all',
    activation: 'gelu-tanh',
    fused: true,
    attentionGate: true,
  });
  const spec = eachAttention(model.spec, (attention, layer) => {
    if (layer === 0) return attention;
    const { stored: _, ...rest } = attention;
    return { ...rest, cache: 0 };
  });
  return { ...model, spec };
}

function layerInputs(): TinyModel {
  const model = tinyModel({ ...sizes, ffnSize: 16, queryKeyNorm: 'all', window: 9 });
  const attending = eachAttention(model.spec, (attention) => {
    const { queryNorm, stored } = attention;
    if (queryNorm === undefined || stored?.keyNorm === undefined) return attention;
    return {
      ...attention,
      chunk: 11,
      queryNorm: { ...queryNorm, over: 'each' },
      stored: { ...stored, keyNorm: { ...stored.keyNorm, over: 'each' } },
    };
  });
  const reading = (index: number): PartSpec => ({
    input: rms(32),
    body: {
      kind: 'per-layer-input',
      index,
      activation: 'gelu-tanh',
      gate: linear('layers.0.query', 16, 32),
      output: linear('layers.0.down', 32, 16),
    },
  });
  const spec: ModelSpec = {
    ...attending,
    layers: attending.layers.map(({ branches }, index) => ({
      branches: [...branches, { parts: [reading(index)], streamScale: 0.6 }],
    })),
    perLayerInputs: {
      count: 2,
      size: 16,
      // Fewer than there are tokens.
      table: tableSpec('embedding', 40, 32),
      tableScale: 0.5,
      projection: linear('layers.1.query', 32, 32),
      projectionScale: 0.7,
      norm: rms(16),
    },
  };
  return { ...model, spec };
}

function multiHeadLatentAttention(): TinyModel {
  const { spec, weights } = tinyModel({ ...usualHeads, rotatedValues: 8 });
  const [headCount, kvLoraRank, qkNopeHeadDim, qkRopeHeadDim, vHeadDim] = [5, 20, 12, 8, 6];
  const latent: MlaSpec = {
    kind: 'mla',
    headCount,
    cache: 1,
    kvLoraRank,
    qkNopeHeadDim,
    qkRopeHeadDim,
    vHeadDim,
    queryInput: { down: linear('latent.down', 24, 32), norm: rms(24, 'latent.query-norm') },
    query: linear('latent.query', headCount * qkNopeHeadDim, 24),
    queryRope: linear('latent.query-rotated', headCount * qkRopeHeadDim, 24),
    kvDown: linear('latent.latent', kvLoraRank, 32),
    kvNorm: rms(kvLoraRank, 'latent.norm'),
    keyRope: linear('latent.key-rotated', qkRopeHeadDim, 32),
    keyUp: { ...linear('latent.to-latent', headCount * kvLoraRank, qkNopeHeadDim), members: headCount },
    valueUp: { ...linear('latent.to-values', headCount * vHeadDim, kvLoraRank), members: headCount },
    output: linear('latent.output', 32, headCount * vHeadDim),
    rope: 0,
    scale: 0.3,
  };
  const changed: ModelSpec = {
    ...eachPart(spec, (part, layer) =>
      layer === 1 && part.body.kind === 'attention' ? { ...part, body: latent } : part,
    ),
    caches: spec.caches.map((cache, index) =>
      index === 1 ? { headCount: 1, headSize: kvLoraRank + qkRopeHeadDim, valuesInKeys: kvLoraRank } : cache,
    ),
  };
  return withTensors(changed, weights);
}

/** The router has one row for all: the first experts are taken. */
function equalScores(): TinyModel {
  const router = { score: 'softmax', used: 3, normalized: true, scale: 1 } as const;
  const { spec, weights } = tinyModel({ ...expertSizes, experts: { count: 9, size: 20, router } });
  const withOneRow = (body: BodySpec): BodySpec => {
    if (body.kind !== 'moe') return body;
    const { linear } = body.router;
    const weight = { ...linear.weight, runs: { rows: 1, every: 0 } };
    return { ...body, router: { ...body.router, linear: { ...linear, weight } } };
  };
  return { spec: eachPart(spec, (part) => ({ ...part, body: withOneRow(part.body) })), weights };
}

export const namedModels: readonly NamedModel[] = [
  ...Object.entries(byOptions).map(([name, options]) => ({
    name,
    kvType: 'f16' as const,
    make: () => tinyModel(options),
  })),
  { name: 'attentions of several shapes, values that are keys', kvType: 'f16', make: severalShapes },
  { name: 'a layer that reads what another has stored', kvType: 'q8', make: sharedCache },
  { name: 'attention in chunks, per-layer embeddings', kvType: 'f16', make: layerInputs },
  { name: 'MLA', kvType: 'f16', make: multiHeadLatentAttention },
  { name: 'MLA with 8-bit KV', kvType: 'q8', make: multiHeadLatentAttention },
  { name: 'experts that score alike', kvType: 'f16', make: equalScores },
];
