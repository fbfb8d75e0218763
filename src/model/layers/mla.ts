// Attention through a latent, of one layer.

import type { LatentTraits } from '../architecture.ts';
import { linearSpec } from '../linear-spec.ts';
import type { LatentAttentionSpec, LinearSpec } from '../spec.ts';
import { normOf, type SpecParts } from '../spec-parts.ts';

export function latentAttentionSpec(
  parts: SpecParts,
  latent: LatentTraits,
  index: number,
  cache: number,
): LatentAttentionSpec {
  const { sizes, traits, names } = parts;
  const { headCount, hiddenSize } = sizes;
  const { queryRank, rank, contentSize, rotatedSize, valueSize } = latent;
  const bias = traits.queryKeyValueBias;
  const stored = { role: 'latent', columns: hiddenSize, bias } as const;
  const pairs = (heads: number) =>
    traits.interleavedPairs ? { interleaved: { heads, rotated: rotatedSize } } : {};
  // Each head has what is not rotated first.
  const queries = {
    role: queryRank === undefined ? 'query' : 'latentQuery',
    columns: queryRank ?? hiddenSize,
  } as const;
  const every = contentSize + rotatedSize;
  const queryDown = { role: 'latentQueryDown', rows: queryRank ?? 0, columns: hiddenSize, bias } as const;
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
            down: linearSpec(names, index, queryDown),
            norm: normOf(parts, index, 'latentQueryNorm', queryRank),
          },
        }),
    query: linearSpec(names, index, {
      ...queries,
      rows: headCount * contentSize,
      runs: { rows: contentSize, every },
    }),
    queryRotated: linearSpec(names, index, {
      ...queries,
      firstRow: contentSize,
      rows: headCount * rotatedSize,
      runs: { rows: rotatedSize, every },
      ...pairs(headCount),
    }),
    latent: linearSpec(names, index, { ...stored, rows: rank }),
    latentNorm: normOf(parts, index, 'latentNorm', rank),
    keyRotated: linearSpec(names, index, { ...stored, firstRow: rank, rows: rotatedSize, ...pairs(1) }),
    ...upProjections(parts, latent, index),
    output: linearSpec(names, index, {
      role: 'output',
      rows: hiddenSize,
      columns: headCount * valueSize,
      bias: traits.outputBias,
    }),
    rope: 0,
    scale: traits.attentionScale,
  };
}

function upProjections(
  { sizes, names }: SpecParts,
  { rank, contentSize, valueSize }: LatentTraits,
  index: number,
): Readonly<Record<'toLatent' | 'toValues', LinearSpec>> {
  const { headCount: members } = sizes;
  const keys = { rows: members * rank, columns: contentSize };
  const values = { rows: members * valueSize, columns: rank };
  if (names.has(index, 'latentKeyUp')) {
    return {
      toLatent: { ...linearSpec(names, index, { ...keys, role: 'latentKeyUp' }), members },
      toValues: { ...linearSpec(names, index, { ...values, role: 'latentValueUp' }), members },
    };
  }
  // Each head has its rows of keys first, then those of values.
  const every = contentSize + valueSize;
  return {
    toLatent: {
      ...linearSpec(names, index, { ...keys, role: 'latentUp', transposed: { rows: rank, every } }),
      members,
    },
    toValues: {
      ...linearSpec(names, index, {
        ...values,
        role: 'latentUp',
        firstRow: contentSize,
        runs: { rows: valueSize, every },
      }),
      members,
    },
  };
}
