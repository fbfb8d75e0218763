// Puts sizes, traits and tensor names together into a ModelSpec.

import type {
  DeltaNetTraits,
  LayerTraits,
  ShortConvolutionTraits,
  StateSpaceTraits,
  Traits,
} from './architecture.ts';
import { attentionSpec } from './layers/attention.ts';
import { deltaNetSpec } from './layers/gated-delta-net.ts';
import { feedingParts } from './layers/mlp.ts';
import { latentAttentionSpec } from './layers/mla.ts';
import { layerInputPart, layerInputsSpec } from './layers/per-layer-inputs.ts';
import { shortConvolutionSpec, stateSpaceSpec } from './layers/mamba2.ts';
import { layerStreamsSpec, lowRankBranch, streamsSpec } from './layers/altup.ts';
import { memoryOf } from './recurrent-state.ts';
import type { BodySpec, BranchSpec, CacheSpec, LayerSpec, ModelSpec, NormSpec, PartSpec } from './spec.ts';
import { layerScale, normNamed, normOf, type SpecParts, tableSpec } from './spec-parts.ts';
import type { LayerRole, ModelRole } from './tensor-names.ts';

export function assembleSpec(parts: SpecParts): ModelSpec {
  const { sizes, traits, names } = parts;
  const { hiddenSize, vocabSize, normEpsilon } = sizes;
  const borrowsHead = parts.tiedHead || parts.headless;
  const embedding = tableSpec(names.embedding, vocabSize, hiddenSize);
  const layers = traits.layers.map((layer, index) => layerSpec(withSizesOf(parts, layer), layer, index));
  const layerInputs = layerInputsSpec(parts);
  const streams = streamsSpec(parts);
  return {
    architecture: parts.architecture.name,
    hiddenSize,
    vocabSize,
    contextLength: Math.min(sizes.contextLength, traits.positionRows ?? Number.POSITIVE_INFINITY),
    normEpsilon,
    embeddingScale: traits.embeddingScale ?? 1,
    ropes: traits.ropes,
    caches: traits.layers.filter(isStoring).map((layer) => cacheSpec(withSizesOf(parts, layer))),
    memories: layers.flatMap(({ branches }) =>
      branches.flatMap((one) => one.parts.flatMap(({ body }) => ('memory' in body ? [memoryOf(body)] : []))),
    ),
    embedding,
    ...embeddingExtras(parts),
    ...(layerInputs === undefined ? {} : { layerInputs }),
    ...(streams === undefined ? {} : { streams }),
    layers,
    ...(traits.noFinalNorm ? {} : { finalNorm: normNamed(traits, names.finalNorm, hiddenSize) }),
    head: {
      leaf: 'linear',
      weight: { tensor: borrowsHead ? embedding.tensor : names.head, firstRow: 0, rows: vocabSize },
      columns: hiddenSize,
    },
    ...(traits.logitScale === undefined ? {} : { logitScale: traits.logitScale }),
    ...(traits.logitSoftcap === undefined ? {} : { logitSoftcap: traits.logitSoftcap }),
    ...(parts.headless ? { headless: true } : {}),
    ...(parts.textOnly ? { textOnly: true } : {}),
  };
}

/** What is added to embeddings, and the norm of that. */
function embeddingExtras({
  sizes: { hiddenSize },
  traits,
  names,
}: SpecParts): Pick<ModelSpec, 'positions' | 'textKinds' | 'embeddingNorm'> {
  const { positionRows, textKindRows, embeddingNorm } = traits;
  const table = (role: ModelRole, rows: number) => tableSpec(names.model(role), rows, hiddenSize);
  return {
    ...(positionRows === undefined ? {} : { positions: table('positions', positionRows) }),
    ...(textKindRows === undefined ? {} : { textKinds: table('textKinds', textKindRows) }),
    ...(embeddingNorm ? { embeddingNorm: normNamed(traits, names.model('embeddingNorm'), hiddenSize) } : {}),
  };
}

function layerSpec(parts: SpecParts, layer: LayerTraits, index: number): LayerSpec {
  const { traits } = parts;
  const { norms = 'before' } = traits;
  const norm = (role: LayerRole, place: 'before' | 'after' | 'over-stream'): NormSpec | undefined =>
    norms === place || (norms === 'around' && place !== 'over-stream')
      ? normOf(parts, index, role)
      : undefined;
  const attentionNorm = layer.unnormed ? undefined : norm('attentionNorm', 'before');
  const ffnNorm = traits.parallel ? attentionNorm : norm('ffnNorm', 'before');
  const attending = withInput({ body: mixerSpec(parts, layer, index) }, attentionNorm);
  const feeding = feedingParts(parts, layer, index, ffnNorm);
  if (traits.parallel) return { branches: [branch(traits, [attending, ...feeding], undefined)] };
  const attentionPostNorm = norm('attentionPostNorm', 'after');
  const branches = [
    traits.lowRank === undefined
      ? branch(traits, [attending], attentionPostNorm, norm('attentionPostNorm', 'over-stream'))
      : lowRankBranch(parts, index, attending, attentionPostNorm),
    branch(traits, feeding, norm('ffnPostNorm', 'after'), norm('ffnPostNorm', 'over-stream')),
  ];
  if (traits.streamCount !== undefined) return { branches, streams: layerStreamsSpec(parts, index) };
  if (traits.layerInputSize !== undefined) branches.push({ parts: [layerInputPart(parts, index)] });
  const streamScale = traits.layerScales ? layerScale(parts, index) : 1;
  if (streamScale === 1) return { branches };
  return { branches: [...branches.slice(0, -1), { ...(branches.at(-1) as BranchSpec), streamScale }] };
}

/** Sizes of one layer in place of those of all. */
function withSizesOf(parts: SpecParts, layer: LayerTraits): SpecParts {
  const { headSize, kvHeadCount, ffnSize } = layer;
  const own = Object.entries({ headSize, kvHeadCount, ffnSize }).filter(([, size]) => size !== undefined);
  return { ...parts, sizes: { ...parts.sizes, ...Object.fromEntries(own) } };
}

const isAttending = ({ mixer }: LayerTraits): boolean => mixer === undefined;
const isStoring = (layer: LayerTraits): boolean => isAttending(layer) && layer.cacheOf === undefined;

function cacheSpec({ sizes, traits: { latent } }: SpecParts): CacheSpec {
  if (latent !== undefined) {
    return { headCount: 1, headSize: latent.rank + latent.rotatedSize, valuesInKeys: latent.rank };
  }
  return { headCount: sizes.kvHeadCount, headSize: sizes.headSize };
}

/** What makes tokens know of each other. Caches and memories are numbered in the order of their layers. */
function mixerSpec(parts: SpecParts, layer: LayerTraits, index: number): BodySpec {
  const { layers, latent, deltaNet, shortConvolution, stateSpace } = parts.traits;
  const before = (kind: (layer: LayerTraits) => boolean, end = index) =>
    layers.slice(0, end).filter(kind).length;
  const memory = index - before(isAttending);
  switch (layer.mixer) {
    case 'delta-net':
      return deltaNetSpec(parts, deltaNet as DeltaNetTraits, index, memory);
    case 'short-convolution':
      return shortConvolutionSpec(parts, shortConvolution as ShortConvolutionTraits, index, memory);
    case 'state-space':
      return stateSpaceSpec(parts, stateSpace as StateSpaceTraits, index, memory);
  }
  const cache = before(isStoring, layer.cacheOf);
  if (latent !== undefined) return latentAttentionSpec(parts, latent, index, cache);
  return attentionSpec(parts, layer, index, cache);
}

function withInput(part: PartSpec, input: NormSpec | undefined): PartSpec {
  return input === undefined ? part : { input, ...part };
}

function branch(
  { residualScale }: Traits,
  parts: readonly PartSpec[],
  output: NormSpec | undefined,
  streamNorm?: NormSpec | undefined,
): BranchSpec {
  return {
    parts,
    ...(output === undefined ? {} : { output }),
    ...(residualScale === undefined ? {} : { scale: residualScale }),
    ...(streamNorm === undefined ? {} : { streamNorm }),
  };
}
