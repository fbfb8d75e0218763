// Small random models with what few families have: attention through a latent, several residual streams, maps of low rank
// and gates that are cut.

import type { BodySpec, LatentAttentionSpec, LayerSpec, ModelSpec } from '../../src/model/spec.ts';
import { vectorSpec } from '../../src/model/spec-parts.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { linear, rms } from './leaves.ts';
import { type TinyModel, tinyModel, tinyModelOf } from './tiny-model.ts';

interface RareOptions {
  readonly seed: number;
  readonly type: TensorType;
}

interface LatentOptions extends RareOptions {
  readonly headCount: number;
  readonly rank: number;
  readonly contentSize: number;
  readonly rotatedSize: number;
  readonly valueSize: number;
  /** Queries are made of so many values, not of the input itself. */
  readonly queryRank?: number;
}

const HIDDEN = 64;

/** Every attention of a tiny model goes through a latent. */
export function latentModel(options: LatentOptions): TinyModel {
  const { seed, type, rank, rotatedSize } = options;
  const base = tinyModel({ seed, type, hiddenSize: HIDDEN, ffnSize: HIDDEN, rotatedValues: rotatedSize });
  const spec: ModelSpec = {
    ...base.spec,
    caches: base.spec.caches.map(() => ({ headCount: 1, headSize: rank + rotatedSize, valuesInKeys: rank })),
    layers: base.spec.layers.map((layer, index) =>
      mapBodies(layer, (body) => (body.kind === 'attention' ? latentAttention(options, index) : body)),
    ),
  };
  return tinyModelOf(spec, { seed, type });
}

function latentAttention(options: LatentOptions, cache: number): LatentAttentionSpec {
  const { headCount, rank, contentSize, rotatedSize, valueSize, queryRank } = options;
  const at = (part: string) => `layers.${cache}.${part}`;
  const asking = queryRank ?? HIDDEN;
  return {
    kind: 'latent-attention',
    headCount,
    cache,
    rank,
    contentSize,
    rotatedSize,
    valueSize,
    ...(queryRank === undefined
      ? {}
      : {
          queryInput: {
            down: linear(at('query-down'), queryRank, HIDDEN),
            norm: rms(queryRank, at('query-down.norm')),
          },
        }),
    query: linear(at('latent-query'), headCount * contentSize, asking),
    queryRotated: linear(at('query-rotated'), headCount * rotatedSize, asking),
    latent: linear(at('latent'), rank, HIDDEN),
    latentNorm: rms(rank, at('latent.norm')),
    keyRotated: linear(at('key-rotated'), rotatedSize, HIDDEN),
    toLatent: { ...linear(at('to-latent'), headCount * rank, contentSize), members: headCount },
    toValues: { ...linear(at('to-values'), headCount * valueSize, rank), members: headCount },
    output: linear(at('latent-output'), HIDDEN, headCount * valueSize),
    rope: 0,
    scale: (contentSize + rotatedSize) ** -0.5,
  };
}

interface StreamedOptions extends RareOptions {
  readonly count: number;
  readonly hiddenSize: number;
  readonly gateCutoff: number;
  /** What other streams are told is scaled before. */
  readonly toldScale: boolean;
}

/** A map of low rank beside each attention, gates of feed-forwards cut, and several residual streams. */
export function streamedModel({ seed, type, hiddenSize, ...options }: StreamedOptions): TinyModel {
  const base = tinyModel({ seed, type, hiddenSize });
  const maps = (part: string) =>
    Array.from({ length: options.count - 1 }, (_, index) =>
      linear(`${part}.${index}`, hiddenSize, hiddenSize),
    );
  const spec: ModelSpec = {
    ...base.spec,
    streams: { count: options.count, spread: maps('spread'), gather: maps('gather') },
    layers: base.spec.layers.map((layer, index) => streamedLayer(layer, index, hiddenSize, options)),
  };
  return tinyModelOf(spec, { seed, type });
}

function streamedLayer(
  layer: LayerSpec,
  index: number,
  hiddenSize: number,
  { count, gateCutoff, toldScale }: Pick<StreamedOptions, 'count' | 'gateCutoff' | 'toldScale'>,
): LayerSpec {
  const at = (part: string) => `layers.${index}.${part}`;
  const lowRank = (part: string): BodySpec => ({
    kind: 'low-rank',
    down: linear(at(`${part}-down`), 12, hiddenSize),
    up: linear(at(`${part}-up`), hiddenSize, 12),
    norm: rms(hiddenSize, at(`${part}.norm`)),
  });
  const cut = mapBodies(layer, (body) => (body.kind === 'feed-forward' ? { ...body, gateCutoff } : body));
  const [attending, ...others] = cut.branches;
  const beside = { input: rms(hiddenSize, at('beside-input.norm')), body: lowRank('beside') };
  return {
    branches: [{ ...attending, parts: [...(attending?.parts ?? []), beside] }, ...others],
    streams: {
      norm: rms(hiddenSize, at('streams.norm')),
      features: linear(at('features'), count, hiddenSize),
      prediction: linear(at('prediction'), count * count, count),
      correction: linear(at('correction'), count, count),
      told: { body: lowRank('told'), output: rms(hiddenSize, at('told-output.norm')) },
      ...(toldScale ? { toldScale: vectorSpec(at('told-scale.norm'), hiddenSize) } : {}),
    },
  };
}

function mapBodies(layer: LayerSpec, change: (body: BodySpec) => BodySpec): LayerSpec {
  return {
    ...layer,
    branches: layer.branches.map((branch) => ({
      ...branch,
      parts: branch.parts.map((part) => ({ ...part, body: change(part.body) })),
    })),
  };
}
