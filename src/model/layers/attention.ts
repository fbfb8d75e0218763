// The attention of one layer.

import type { LayerTraits, Traits } from '../architecture.ts';
import { linearSpec } from '../linear-spec.ts';
import type { AttentionSpec, HeadNormSpec, InterleavedHeads, RopeSpec, StoredSpec } from '../spec.ts';
import { normOf, type SpecParts, vectorSpec } from '../spec-parts.ts';
import type { LayerRole } from '../tensor-names.ts';

export function attentionSpec(
  parts: SpecParts,
  layer: LayerTraits,
  index: number,
  cache: number,
): AttentionSpec {
  const { sizes, traits, names } = parts;
  const { headCount, headSize } = sizes;
  const growth = layer.growth ?? traits.growth;
  const queryNorm = headNorm(parts, layer, index, { role: 'queryNorm', heads: headCount });
  const keyNorm = headNorm(parts, layer, index, { role: 'keyNorm', heads: sizes.kvHeadCount });
  const { query, gate, key, value } = projections(parts, layer, index);
  const isKey = layer.valuesAreKeys === 'unless-stored' ? !names.has(index, 'value') : layer.valuesAreKeys;
  const stored: StoredSpec = {
    key,
    ...(isKey ? {} : { value }),
    ...(keyNorm === undefined ? {} : { keyNorm }),
    ...(traits.valueNorm
      ? { valueNorm: { norm: { leaf: 'norm', kind: 'rms', size: headSize }, over: 'head' } }
      : {}),
  };
  return {
    kind: 'attention',
    headCount,
    headSize,
    cache,
    query,
    ...(layer.cacheOf === undefined ? { stored } : {}),
    output: linearSpec(names, index, {
      role: 'output',
      rows: sizes.hiddenSize,
      columns: headCount * headSize,
      bias: traits.outputBias,
    }),
    ...(queryNorm === undefined ? {} : { queryNorm }),
    ...(traits.normsAfterRope ? { normsAfterRope: true } : {}),
    ...(layer.rope === undefined ? {} : { rope: layer.rope }),
    ...(traits.bidirectional ? { bidirectional: true } : {}),
    ...(layer.window === undefined ? {} : { window: layer.window }),
    ...(layer.chunk === undefined ? {} : { chunk: layer.chunk }),
    scale: traits.attentionScale,
    ...(traits.attentionSoftcap === undefined ? {} : { softcap: traits.attentionSoftcap }),
    ...(traits.sinks ? { sinks: vectorSpec(names.weight(index, 'sinks'), headCount) } : {}),
    ...(gate === undefined ? {} : { gate }),
    ...(growth === undefined ? {} : { growth }),
  };
}

function projections({ sizes, traits, names }: SpecParts, layer: LayerTraits, index: number) {
  const { headCount, kvHeadCount, headSize } = sizes;
  const fused = traits.fusedQueryKeyValue === true;
  const common = { columns: sizes.hiddenSize, bias: traits.queryKeyValueBias };
  const queryRows = headCount * headSize;
  const kvRows = kvHeadCount * headSize;
  const queries = { ...common, role: fused ? 'queryKeyValue' : 'query', rows: queryRows } as const;
  const turns = traits.attentionGate ? { runs: { rows: headSize, every: 2 * headSize } } : {};
  return {
    query: linearSpec(names, index, { ...queries, ...turns, ...pairs(traits, layer, headCount) }),
    gate: traits.attentionGate
      ? linearSpec(names, index, { ...queries, ...turns, firstRow: headSize })
      : undefined,
    key: linearSpec(names, index, {
      ...common,
      role: fused ? 'queryKeyValue' : 'key',
      rows: kvRows,
      firstRow: fused ? queryRows : 0,
      ...pairs(traits, layer, kvHeadCount),
    }),
    value: linearSpec(names, index, {
      ...common,
      role: fused ? 'queryKeyValue' : 'value',
      rows: kvRows,
      firstRow: fused ? queryRows + kvRows : 0,
    }),
  };
}

function headNorm(
  parts: SpecParts,
  layer: LayerTraits,
  index: number,
  { role, heads }: { readonly role: 'queryNorm' | 'keyNorm'; readonly heads: number },
): HeadNormSpec | undefined {
  const { traits } = parts;
  const over = layer.queryKeyNorm ?? traits.queryKeyNorm;
  if (over === undefined) return undefined;
  const { headSize } = parts.sizes;
  if (over === 'unscaled') {
    return { norm: { leaf: 'norm', kind: traits.norm ?? 'rms', size: headSize }, over: 'head' };
  }
  const { bias: _, ...norm } = normOf(parts, index, role, headSize * (over === 'head' ? 1 : heads));
  const weight = over === 'each' ? { weight: headWeights(parts, index, role, heads) } : {};
  return { norm: { ...norm, ...weight, ...pairs(traits, layer, over === 'head' ? 1 : heads) }, over };
}

/** One tensor, or one for each head; no more than one beyond those that the file has. */
function headWeights(
  { names, opened }: SpecParts,
  index: number,
  role: LayerRole,
  heads: number,
): string | string[] {
  const [first, second] = [0, 1].map((head) => names.weight(index, role, head)) as [string, string];
  if (first === second) return first;
  const most = Math.min(heads, opened.weights.tensors.size + 1);
  return Array.from({ length: most }, (_, head) => names.weight(index, role, head));
}

/** How rows or weights of heads are stored. */
function pairs(
  traits: Traits,
  layer: LayerTraits,
  heads: number,
): { readonly interleaved?: InterleavedHeads } {
  // Also in layers that rotate nothing: converters sort those like the others.
  const rope: RopeSpec | undefined = traits.ropes[layer.rope ?? 0];
  if (!traits.interleavedPairs || rope === undefined) return {};
  const { inverseFrequencies } = rope;
  return { interleaved: { heads, rotated: 2 * inverseFrequencies.length } };
}
