// Small random models with what few families have: MLA, several residual streams, maps of low rank
// and gates that are cut.

import { vectorSpec } from '../../src/model/leaves.ts';
import type { BodySpec, LayerSpec, MlaSpec, ModelSpec } from '../../src/model/spec.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { linear, rms } from './leaves.ts';
import { type TinyModel, tinyModel, tinyModelOf } from './tiny-model.ts';

interface RareOptions {
  readonly seed: number;
  readonly type: TensorType;
}

interface MlaOptions extends RareOptions {
  readonly headCount: number;
  readonly kvLoraRank: number;
  readonly qkNopeHeadDim: number;
  readonly qkRopeHeadDim: number;
  readonly vHeadDim: number;
  /** Queries are made of this many values, not of the input itself. */
  readonly qLoraRank?: number;
}

const HIDDEN = 64;

/** Every attention of a tiny model is MLA. */
export function mlaModel(options: MlaOptions): TinyModel {
  const { seed, type, kvLoraRank, qkRopeHeadDim } = options;
  const base = tinyModel({ seed, type, hiddenSize: HIDDEN, ffnSize: HIDDEN, rotatedValues: qkRopeHeadDim });
  const spec: ModelSpec = {
    ...base.spec,
    caches: base.spec.caches.map(() => ({
      headCount: 1,
      headSize: kvLoraRank + qkRopeHeadDim,
      valuesInKeys: kvLoraRank,
    })),
    layers: base.spec.layers.map((layer, index) =>
      mapBodies(layer, (body) => (body.kind === 'attention' ? mla(options, index) : body)),
    ),
  };
  return tinyModelOf(spec, { seed, type });
}

function mla(options: MlaOptions, cache: number): MlaSpec {
  const { headCount, kvLoraRank, qkNopeHeadDim, qkRopeHeadDim, vHeadDim, qLoraRank } = options;
  const at = (part: string) => `layers.${cache}.${part}`;
  const asking = qLoraRank ?? HIDDEN;
  return {
    kind: 'mla',
    headCount,
    cache,
    kvLoraRank,
    qkNopeHeadDim,
    qkRopeHeadDim,
    vHeadDim,
    ...(qLoraRank === undefined
      ? {}
      : {
          queryInput: {
            down: linear(at('query-down'), qLoraRank, HIDDEN),
            norm: rms(qLoraRank, at('query-down.norm')),
          },
        }),
    query: linear(at('latent-query'), headCount * qkNopeHeadDim, asking),
    queryRope: linear(at('query-rotated'), headCount * qkRopeHeadDim, asking),
    kvDown: linear(at('latent'), kvLoraRank, HIDDEN),
    kvNorm: rms(kvLoraRank, at('latent.norm')),
    keyRope: linear(at('key-rotated'), qkRopeHeadDim, HIDDEN),
    keyUp: { ...linear(at('to-latent'), headCount * kvLoraRank, qkNopeHeadDim), members: headCount },
    valueUp: { ...linear(at('to-values'), headCount * vHeadDim, kvLoraRank), members: headCount },
    output: linear(at('latent-output'), HIDDEN, headCount * vHeadDim),
    rope: 0,
    scale: (qkNopeHeadDim + qkRopeHeadDim) ** -0.5,
  };
}

interface StreamedOptions extends RareOptions {
  readonly count: number;
  readonly hiddenSize: number;
  readonly gateCutoff: number;
  /** What other streams are told is scaled before. */
  readonly perLayerScale: boolean;
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
    altUp: { count: options.count, spread: maps('spread'), gather: maps('gather') },
    layers: base.spec.layers.map((layer, index) => streamedLayer(layer, index, hiddenSize, options)),
  };
  return tinyModelOf(spec, { seed, type });
}

function streamedLayer(
  layer: LayerSpec,
  index: number,
  hiddenSize: number,
  { count, gateCutoff, perLayerScale }: Pick<StreamedOptions, 'count' | 'gateCutoff' | 'perLayerScale'>,
): LayerSpec {
  const at = (part: string) => `layers.${index}.${part}`;
  const laurel = (part: string): BodySpec => ({
    kind: 'laurel',
    down: linear(at(`${part}-down`), 12, hiddenSize),
    up: linear(at(`${part}-up`), hiddenSize, 12),
    norm: rms(hiddenSize, at(`${part}.norm`)),
  });
  const cut = mapBodies(layer, (body) => (body.kind === 'mlp' ? { ...body, gateCutoff } : body));
  const [attending, ...others] = cut.branches;
  const beside = { input: rms(hiddenSize, at('beside-input.norm')), body: laurel('beside') };
  return {
    branches: [{ ...attending, parts: [...(attending?.parts ?? []), beside] }, ...others],
    altUp: {
      norm: rms(hiddenSize, at('streams.norm')),
      features: linear(at('features'), count, hiddenSize),
      prediction: linear(at('prediction'), count * count, count),
      correction: linear(at('correction'), count, count),
      perLayer: { body: laurel('told'), output: rms(hiddenSize, at('told-output.norm')) },
      ...(perLayerScale ? { perLayerScale: vectorSpec(at('told-scale.norm'), hiddenSize) } : {}),
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
