// MLA, of one layer.

import type { MlaTraits } from '../architecture.ts';
import { linearSpec } from '../linear-spec.ts';
import type { LinearSpec, MlaSpec } from '../spec.ts';
import { normOf, type SpecParts } from '../spec-parts.ts';

export function mlaSpec(parts: SpecParts, mla: MlaTraits, index: number, cache: number): MlaSpec {
  const { sizes, traits, names } = parts;
  const { headCount, hiddenSize } = sizes;
  const { qLoraRank, kvLoraRank, qkNopeHeadDim, qkRopeHeadDim, vHeadDim } = mla;
  const bias = traits.queryKeyValueBias;
  const stored = { role: 'latent', columns: hiddenSize, bias } as const;
  const pairs = (heads: number) =>
    traits.interleavedPairs ? { interleaved: { heads, rotated: qkRopeHeadDim } } : {};
  // Each head has what is not rotated first.
  const queries = {
    role: qLoraRank === undefined ? 'query' : 'latentQuery',
    columns: qLoraRank ?? hiddenSize,
  } as const;
  const every = qkNopeHeadDim + qkRopeHeadDim;
  const queryDown = { role: 'latentQueryDown', rows: qLoraRank ?? 0, columns: hiddenSize, bias } as const;
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
            down: linearSpec(names, index, queryDown),
            norm: normOf(parts, index, 'latentQueryNorm', qLoraRank),
          },
        }),
    query: linearSpec(names, index, {
      ...queries,
      rows: headCount * qkNopeHeadDim,
      runs: { rows: qkNopeHeadDim, every },
    }),
    queryRope: linearSpec(names, index, {
      ...queries,
      firstRow: qkNopeHeadDim,
      rows: headCount * qkRopeHeadDim,
      runs: { rows: qkRopeHeadDim, every },
      ...pairs(headCount),
    }),
    kvDown: linearSpec(names, index, { ...stored, rows: kvLoraRank }),
    kvNorm: normOf(parts, index, 'kvNorm', kvLoraRank),
    keyRope: linearSpec(names, index, { ...stored, firstRow: kvLoraRank, rows: qkRopeHeadDim, ...pairs(1) }),
    ...upProjections(parts, mla, index),
    output: linearSpec(names, index, {
      role: 'output',
      rows: hiddenSize,
      columns: headCount * vHeadDim,
      bias: traits.outputBias,
    }),
    rope: 0,
    scale: traits.attentionScale,
  };
}

function upProjections(
  { sizes, names }: SpecParts,
  { kvLoraRank, qkNopeHeadDim, vHeadDim }: MlaTraits,
  index: number,
): Readonly<Record<'keyUp' | 'valueUp', LinearSpec>> {
  const { headCount: members } = sizes;
  const keys = { rows: members * kvLoraRank, columns: qkNopeHeadDim };
  const values = { rows: members * vHeadDim, columns: kvLoraRank };
  if (names.has(index, 'latentKeyUp')) {
    return {
      keyUp: { ...linearSpec(names, index, { ...keys, role: 'latentKeyUp' }), members },
      valueUp: { ...linearSpec(names, index, { ...values, role: 'latentValueUp' }), members },
    };
  }
  // Each head has its rows of keys first, then those of values.
  const every = qkNopeHeadDim + vHeadDim;
  return {
    keyUp: {
      ...linearSpec(names, index, { ...keys, role: 'latentUp', transposed: { rows: kvLoraRank, every } }),
      members,
    },
    valueUp: {
      ...linearSpec(names, index, {
        ...values,
        role: 'latentUp',
        firstRow: qkNopeHeadDim,
        runs: { rows: vHeadDim, every },
      }),
      members,
    },
  };
}
