// Puts sizes, traits and tensor names together into a ModelSpec.

import type {
  GatedDeltaNetTraits,
  LayerTraits,
  Mamba2Traits,
  ShortConvTraits,
  Traits,
} from './architecture.ts';
import { altUpSpec, laurelBranch, layerAltUpSpec } from './layers/altup.ts';
import { attentionSpec } from './layers/attention.ts';
import { gatedDeltaNetSpec } from './layers/gated-delta-net.ts';
import { mamba2Spec, shortConvSpec } from './layers/mamba2.ts';
import { mlaSpec } from './layers/mla.ts';
import { feedingParts } from './layers/mlp.ts';
import { perLayerInputPart, perLayerInputsSpec } from './layers/per-layer-inputs.ts';
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
  const perLayerInputs = perLayerInputsSpec(parts);
  const altUp = altUpSpec(parts);
  return {
    architecture: parts.architecture.name,
    hiddenSize,
    vocabSize,
    contextLength: Math.min(sizes.contextLength, traits.positionRows ?? Number.POSITIVE_INFINITY),
    normEpsilon,
    embeddingScale: traits.embeddingScale ?? 1,
    ropes: traits.ropes,
    caches: traits.layers.filter(isStoring).map((layer) => cacheSpec(withSizesOf(parts, layer))),
    recurrentStates: layers.flatMap(({ branches }) =>
      branches.flatMap((one) => one.parts.flatMap(({ body }) => ('state' in body ? [memoryOf(body)] : []))),
    ),
    embedding,
    ...embeddingExtras(parts),
    ...(perLayerInputs === undefined ? {} : { perLayerInputs }),
    ...(altUp === undefined ? {} : { altUp }),
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
    traits.laurel === undefined
      ? branch(traits, [attending], attentionPostNorm, norm('attentionPostNorm', 'over-stream'))
      : laurelBranch(parts, index, attending, attentionPostNorm),
    branch(traits, feeding, norm('ffnPostNorm', 'after'), norm('ffnPostNorm', 'over-stream')),
  ];
  if (traits.streamCount !== undefined) return { branches, altUp: layerAltUpSpec(parts, index) };
  if (traits.perLayerInputSize !== undefined) branches.push({ parts: [perLayerInputPart(parts, index)] });
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

function cacheSpec({ sizes, traits: { mla } }: SpecParts): CacheSpec {
  if (mla !== undefined) {
    return { headCount: 1, headSize: mla.kvLoraRank + mla.qkRopeHeadDim, valuesInKeys: mla.kvLoraRank };
  }
  return { headCount: sizes.kvHeadCount, headSize: sizes.headSize };
}

/** What makes tokens know of each other. Caches and recurrent states are numbered in the order of their layers. */
function mixerSpec(parts: SpecParts, layer: LayerTraits, index: number): BodySpec {
  const { layers, mla, gatedDeltaNet, shortConv, mamba2 } = parts.traits;
  const before = (kind: (layer: LayerTraits) => boolean, end = index) =>
    layers.slice(0, end).filter(kind).length;
  const state = index - before(isAttending);
  switch (layer.mixer) {
    case 'gated-delta-net':
      return gatedDeltaNetSpec(parts, gatedDeltaNet as GatedDeltaNetTraits, index, state);
    case 'short-conv':
      return shortConvSpec(parts, shortConv as ShortConvTraits, index, state);
    case 'mamba2':
      return mamba2Spec(parts, mamba2 as Mamba2Traits, index, state);
  }
  const cache = before(isStoring, layer.cacheOf);
  if (mla !== undefined) return mlaSpec(parts, mla, index, cache);
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
