// Puts sizes, traits and tensor names together into a ModelSpec.

import type { Architecture, LayerTraits, Traits } from './architecture.ts';
import type { ModelSizes } from './sizes.ts';
import type { LayerSpec, LinearSpec, ModelSpec, RowSlice } from './spec.ts';
import type { LayerRole, TensorNames } from './tensor-names.ts';

export interface SpecParts {
  readonly architecture: Architecture;
  readonly sizes: ModelSizes;
  readonly traits: Traits;
  readonly names: TensorNames;
  readonly tiedHead: boolean;
  readonly headless: boolean;
}

export function assembleSpec(parts: SpecParts): ModelSpec {
  const { sizes, traits, names } = parts;
  const { layerCount: _, ...sharedSizes } = sizes;
  const borrowsHead = parts.tiedHead || parts.headless;
  const embedding: RowSlice = { tensor: names.embedding, firstRow: 0, rows: sizes.vocabSize };
  return {
    architecture: parts.architecture.name,
    ...sharedSizes,
    normOffset: traits.normOffset ?? 0,
    activation: traits.activation,
    embeddingScale: traits.embeddingScale ?? 1,
    attentionScale: traits.attentionScale,
    ...(traits.attentionSoftcap === undefined ? {} : { attentionSoftcap: traits.attentionSoftcap }),
    ...(traits.logitSoftcap === undefined ? {} : { logitSoftcap: traits.logitSoftcap }),
    ...(parts.headless ? { headless: true } : {}),
    ropes: traits.ropes,
    embedding,
    layers: traits.layers.map((layer, index) => layerSpec(parts, layer, index)),
    finalNorm: names.finalNorm,
    head: {
      weight: borrowsHead ? embedding : { tensor: names.head, firstRow: 0, rows: sizes.vocabSize },
      columns: sizes.hiddenSize,
    },
  };
}

function layerSpec(parts: SpecParts, layer: LayerTraits, index: number): LayerSpec {
  const { traits, names } = parts;
  const norm = (role: LayerRole): string => `${names.layer(index, role)}.weight`;
  return {
    attentionNorm: norm('attentionNorm'),
    ...projections(parts, index),
    ...(traits.queryKeyNorm ? { queryNorm: norm('queryNorm'), keyNorm: norm('keyNorm') } : {}),
    ffnNorm: norm('ffnNorm'),
    ...(traits.postNorms
      ? { attentionPostNorm: norm('attentionPostNorm'), ffnPostNorm: norm('ffnPostNorm') }
      : {}),
    rope: layer.rope,
    ...(layer.window === undefined ? {} : { window: layer.window }),
  };
}

type Projection = 'query' | 'key' | 'value' | 'output' | 'gate' | 'up' | 'down';

interface LinearShape {
  readonly role: LayerRole;
  readonly rows: number;
  readonly columns: number;
  readonly firstRow?: number;
  readonly bias?: boolean | undefined;
  readonly interleavedHeads?: number | undefined;
}

function projections(parts: SpecParts, index: number): Readonly<Record<Projection, LinearSpec>> {
  const { sizes, traits, names } = parts;
  const linear = (shape: LinearShape): LinearSpec => linearSpec(names.layer(index, shape.role), shape);
  const queryRows = sizes.headCount * sizes.headSize;
  const kvRows = sizes.kvHeadCount * sizes.headSize;
  const { hiddenSize: columns, ffnSize } = sizes;
  const fused = traits.fusedProjections === true;
  const qkv = { columns, bias: traits.queryKeyValueBias };
  const gateUp = { columns, rows: ffnSize, bias: traits.ffnBias };
  const heads = (count: number) => (traits.interleavedPairs ? { interleavedHeads: count } : {});
  return {
    query: linear({
      ...qkv,
      role: fused ? 'queryKeyValue' : 'query',
      rows: queryRows,
      ...heads(sizes.headCount),
    }),
    key: linear({
      ...qkv,
      role: fused ? 'queryKeyValue' : 'key',
      rows: kvRows,
      firstRow: fused ? queryRows : 0,
      ...heads(sizes.kvHeadCount),
    }),
    value: linear({
      ...qkv,
      role: fused ? 'queryKeyValue' : 'value',
      rows: kvRows,
      firstRow: fused ? queryRows + kvRows : 0,
    }),
    output: linear({ role: 'output', rows: columns, columns: queryRows, bias: traits.outputBias }),
    gate: linear({ ...gateUp, role: fused ? 'gateUp' : 'gate' }),
    up: linear({ ...gateUp, role: fused ? 'gateUp' : 'up', firstRow: fused ? ffnSize : 0 }),
    down: linear({ role: 'down', rows: columns, columns: ffnSize, bias: traits.ffnBias }),
  };
}

function linearSpec(name: string, shape: LinearShape): LinearSpec {
  const slice = (ending: string): RowSlice => ({
    tensor: `${name}.${ending}`,
    firstRow: shape.firstRow ?? 0,
    rows: shape.rows,
    ...(shape.interleavedHeads === undefined ? {} : { interleavedHeads: shape.interleavedHeads }),
  });
  return {
    weight: slice('weight'),
    columns: shape.columns,
    ...(shape.bias ? { bias: slice('bias') } : {}),
  };
}
