// Puts sizes, traits and tensor names together into a ModelSpec.

import type { DeltaNetTraits, LayerTraits, Traits } from './architecture.ts';
import { attentionSpec } from './assemble-attention.ts';
import { deltaNetSpec } from './assemble-delta-net.ts';
import { expertsSpec, feedForwardSpec, sharedExpertSpec } from './assemble-feed-forward.ts';
import { memoryOf } from './memory-sizes.ts';
import type { BodySpec, BranchSpec, LayerSpec, ModelSpec, NormSpec, PartSpec, RowSlice } from './spec.ts';
import { normNamed, normOf, type SpecParts } from './spec-parts.ts';
import type { LayerRole } from './tensor-names.ts';

export function assembleSpec(parts: SpecParts): ModelSpec {
  const { sizes, traits, names } = parts;
  const { hiddenSize, vocabSize, contextLength, normEpsilon, kvHeadCount, headSize } = sizes;
  const borrowsHead = parts.tiedHead || parts.headless;
  const embedding: RowSlice = { tensor: names.embedding, firstRow: 0, rows: vocabSize };
  const layers = traits.layers.map((layer, index) => layerSpec(parts, layer, index));
  return {
    architecture: parts.architecture.name,
    hiddenSize,
    vocabSize,
    contextLength,
    normEpsilon,
    embeddingScale: traits.embeddingScale ?? 1,
    ropes: traits.ropes,
    caches: traits.layers.filter(isAttending).map(() => ({ headCount: kvHeadCount, headSize })),
    memories: layers.flatMap(({ branches }) =>
      branches.flatMap((one) => one.parts.flatMap(({ body }) => ('memory' in body ? [memoryOf(body)] : []))),
    ),
    embedding,
    layers,
    finalNorm: normNamed(traits, names.finalNorm),
    head: {
      weight: borrowsHead ? embedding : { tensor: names.head, firstRow: 0, rows: vocabSize },
      columns: hiddenSize,
    },
    ...(traits.logitScale === undefined ? {} : { logitScale: traits.logitScale }),
    ...(traits.logitSoftcap === undefined ? {} : { logitSoftcap: traits.logitSoftcap }),
    ...(parts.headless ? { headless: true } : {}),
  };
}

function layerSpec(parts: SpecParts, layer: LayerTraits, index: number): LayerSpec {
  const { traits } = parts;
  const { norms = 'before' } = traits;
  const norm = (role: LayerRole, place: 'before' | 'after'): NormSpec | undefined =>
    norms === 'around' || norms === place ? normOf(parts, index, role) : undefined;
  const mixing = { body: mixerSpec(parts, layer, index) };
  const bodies = layer.experts
    ? [expertsSpec(parts, index), ...sharedExpertSpec(parts, index)]
    : [feedForwardSpec(parts, layer, index)];
  const attentionNorm = norm('attentionNorm', 'before');
  const ffnNorm = traits.parallel ? attentionNorm : norm('ffnNorm', 'before');
  const attending = [withInput(mixing, attentionNorm)];
  const feeding = bodies.map((body) => withInput({ body }, ffnNorm));
  if (traits.parallel) return { branches: [branch(traits, [...attending, ...feeding], undefined)] };
  return {
    branches: [
      branch(traits, attending, norm('attentionPostNorm', 'after')),
      branch(traits, feeding, norm('ffnPostNorm', 'after')),
    ],
  };
}

const isAttending = ({ deltaNet }: LayerTraits): boolean => deltaNet !== true;

/** What makes tokens know of each other. Caches and memories are numbered in the order of their layers. */
function mixerSpec(parts: SpecParts, layer: LayerTraits, index: number): BodySpec {
  const attending = parts.traits.layers.slice(0, index).filter(isAttending).length;
  if (isAttending(layer)) return attentionSpec(parts, layer, index, attending);
  return deltaNetSpec(parts, parts.traits.deltaNet as DeltaNetTraits, index, index - attending);
}

function withInput(part: PartSpec, input: NormSpec | undefined): PartSpec {
  return input === undefined ? part : { input, ...part };
}

function branch(
  { residualScale }: Traits,
  parts: readonly PartSpec[],
  output: NormSpec | undefined,
): BranchSpec {
  return {
    parts,
    ...(output === undefined ? {} : { output }),
    ...(residualScale === undefined ? {} : { scale: residualScale }),
  };
}
