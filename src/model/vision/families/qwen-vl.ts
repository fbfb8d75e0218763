// Qwen's towers: squares of patches become one token, rows and columns are rotated. In 2.5 most layers see windows, and there is
// no table of positions; from 3 on there is a grid of them, and layers within give further outputs (deepstack).

import { configError, fieldOf, optionalSize } from '../../config.ts';
import { withDefaults, withUsualNames } from '../../hugging-face-config.ts';
import { defined } from '../../layer-builder.ts';
import type { LinearSpec, NormSpec } from '../../leaves.ts';
import { gridRope } from '../grid-rope.ts';
import { type TowerMap, towerLayer } from '../tower-layer.ts';
import { sizeField, type TowerSizes, VisionBuilder, type VisionFamily } from '../vision-builder.ts';
import type { VisionSource } from '../vision-source.ts';
import type { TowerLayerStep, TowerStep, VisionSpec } from '../vision-spec.ts';

const prefixes = ['model.visual.', 'visual.', 'vision_tower.'];

export const qwen25Vl: VisionFamily = {
  modelTypes: ['qwen2_5_vl'],
  projectors: ['qwen2.5vl_merger'],
  build: (source) => build(source, windowedTower),
};

export const qwen3Vl: VisionFamily = {
  modelTypes: ['qwen3_vl', 'qwen3_vl_moe', 'qwen3_5', 'qwen3_5_moe'],
  projectors: ['qwen3vl_merger'],
  build: (source) => build(source, gridTower),
};

type MakeSteps = (builder: VisionBuilder, sizes: TowerSizes, merge: number) => readonly TowerStep[];

function build(given: VisionSource, makeSteps: MakeSteps): VisionSpec {
  const named = withUsualNames(given.config, {
    num_hidden_layers: ['depth'],
    num_attention_heads: ['num_heads'],
  });
  const config = withDefaults(named, { layer_norm_eps: 1e-6, spatial_merge_size: 2, patch_size: 14 });
  const source = { ...given, config };
  const builder = new VisionBuilder(source, prefixes);
  const sizes = builder.sizes();
  const merge = optionalSize(config, 'spatial_merge_size') ?? 2;
  const factor = sizes.patchSize * merge;
  return {
    preprocessing: builder.preprocessing({
      kind: 'area',
      factor,
      leastArea:
        sizeField(source, 'size', 'shortest_edge') ??
        optionalSize(source.settings, 'min_pixels') ??
        4 * factor ** 2,
      mostArea:
        sizeField(source, 'size', 'longest_edge') ??
        optionalSize(source.settings, 'max_pixels') ??
        16_384 * factor ** 2,
      frames: 1,
    }),
    tower: { steps: makeSteps(builder, sizes, merge), join: { kind: 'sequence' } },
    prompt: {
      marker: '<|image_pad|>',
      text: '<|image_pad|>',
      layout: { kind: 'run', before: '', after: '' },
      reserved: ['<|vision_start|>', '<|vision_end|>', '<|video_pad|>'],
      positions: 'three-part',
    },
  };
}

function windowedTower(builder: VisionBuilder, sizes: TowerSizes, merge: number): TowerStep[] {
  const { hiddenSize, epsilon, patchSize, layerCount } = sizes;
  const { config } = builder.source;
  const windowPixels = optionalSize(config, 'window_size') ?? 112;
  const window = Math.floor(windowPixels / merge / patchSize) * merge;
  const seesAll = fullLayers(builder);
  const merged = hiddenSize * merge ** 2;
  return [
    builder.patches(builder.name(patchNames), sizes),
    ...Array.from({ length: layerCount }, (_, layer) =>
      gatedLayer(builder, sizes, layer, seesAll(layer) ? undefined : window),
    ),
    { kind: 'norm', norm: builder.rmsNorm(builder.name(mergerNorm25), hiddenSize), epsilon },
    { kind: 'merge', size: merge, order: 'cells' },
    ...projector(
      builder,
      [
        { hub: 'merger.mlp.0', gguf: 'mm.0' },
        { hub: 'merger.mlp.2', gguf: 'mm.2' },
      ],
      merged,
    ),
  ];
}

/** RMS norms before an attention, of a window where there is one, and a gated feed-forward. */
export function gatedLayer(
  builder: VisionBuilder,
  sizes: TowerSizes,
  layer: number,
  window?: number,
): TowerLayerStep {
  const at = (name: keyof typeof blockNames) => builder.name(blockNames[name], layer);
  const norm = (name: 'norm1' | 'norm2') => builder.rmsNorm(at(name), sizes.hiddenSize);
  const ffnSize = builder.source.weights.tensors.get(`${at('up')}.weight`)?.shape[0] ?? sizes.ffnSize;
  return towerLayer(
    { ...sizes, ffnSize },
    {
      linear: blockLinears(builder, at),
      inputs: [norm('norm1'), norm('norm2')],
      activation: 'silu',
      gate: builder.linear(at('gate'), ffnSize, sizes.hiddenSize),
      attention: defined({ rope: gridRope(sizes.headSize, 10_000), window }),
    },
  );
}

/** Listed in folders; in projector files every N-th. */
function fullLayers({ source: { config } }: VisionBuilder): (layer: number) => boolean {
  const interval = optionalSize(config, 'full_attention_interval');
  if (interval !== undefined) return (layer) => (layer + 1) % interval === 0;
  const listed = fieldOf(config, 'fullatt_block_indexes');
  if (Array.isArray(listed)) return (layer) => listed.includes(layer);
  throw configError(config, 'fullatt_block_indexes', 'must list the layers that see the whole picture');
}

function gridTower(builder: VisionBuilder, sizes: TowerSizes, merge: number): TowerStep[] {
  const { hiddenSize, epsilon, layerCount } = sizes;
  const merged = hiddenSize * merge ** 2;
  const table = builder.name({ hub: 'pos_embed', gguf: 'v.position_embd' });
  const rows = gridRows(builder, `${table}.weight`);
  const taken = deepstackLayers(builder);
  const layers = Array.from({ length: layerCount }, (_, layer): TowerStep[] => {
    const at = (name: keyof typeof blockNames) => builder.name(blockNames[name], layer);
    const norm = (name: 'norm1' | 'norm2') => builder.layerNorm(at(name), hiddenSize);
    const step = towerLayer(sizes, {
      linear: blockLinears(builder, (role) => at(role === 'up' ? 'fc1' : role === 'down' ? 'fc2' : role)),
      inputs: [norm('norm1'), norm('norm2')],
      activation: 'gelu-tanh',
      attention: { rope: gridRope(sizes.headSize, 10_000) },
    });
    const index = taken.indexOf(layer);
    return index < 0 ? [step] : [step, deepstack(builder, merge, merged, { index, layer }, epsilon)];
  });
  return [
    builder.patches(builder.name(patchNames), sizes),
    { kind: 'position-grid', table: builder.table(`${table}.weight`, rows, hiddenSize), by: 'corners' },
    ...layers.flat(),
    {
      kind: 'norm',
      norm: builder.layerNorm(builder.name({ hub: 'merger.norm', gguf: 'v.post_ln' }), hiddenSize),
      epsilon,
    },
    { kind: 'merge', size: merge, order: 'cells' },
    ...projector(
      builder,
      [
        { hub: 'merger.linear_fc1', gguf: 'mm.0' },
        { hub: 'merger.linear_fc2', gguf: 'mm.2' },
      ],
      merged,
    ),
  ];
}

function gridRows({ source }: VisionBuilder, table: string): number {
  return (
    optionalSize(source.config, 'num_position_embeddings') ?? source.weights.tensors.get(table)?.shape[0] ?? 1
  );
}

/** Numbered on the hub; projector files flag every layer. */
function deepstackLayers({ source: { config } }: VisionBuilder): readonly number[] {
  const listed = fieldOf(config, 'deepstack_visual_indexes');
  if (Array.isArray(listed)) return listed;
  const flags = fieldOf(config, 'deepstack_layers');
  if (!Array.isArray(flags)) return [];
  return flags.flatMap((flag, layer) => (Number(flag) === 0 ? [] : [layer]));
}

function deepstack(
  builder: VisionBuilder,
  merge: number,
  merged: number,
  { index, layer }: { readonly index: number; readonly layer: number },
  epsilon: number,
): TowerStep {
  const name = (hub: string, gguf: string) => ({
    hub: `deepstack_merger_list.${index}.${hub}`,
    gguf: `v.deepstack.${layer}.${gguf}`,
  });
  const norm: NormSpec = builder.layerNorm(builder.name(name('norm', 'norm')), merged);
  return {
    kind: 'deepstack',
    steps: [
      { kind: 'merge', size: merge, order: 'cells' },
      { kind: 'norm', norm, epsilon },
      ...projector(builder, [name('linear_fc1', 'fc1'), name('linear_fc2', 'fc2')], merged),
    ],
  };
}

type Names = Parameters<VisionBuilder['name']>[0];

function projector(
  builder: VisionBuilder,
  [first, second]: readonly [Names, Names],
  merged: number,
): TowerStep[] {
  const { hiddenSize } = builder.source;
  return [
    { kind: 'linear', linear: builder.linear(builder.name(first), merged, merged) },
    { kind: 'activation', activation: 'gelu' },
    { kind: 'linear', linear: builder.linear(builder.name(second), hiddenSize, merged) },
  ];
}

const patchNames = { hub: 'patch_embed.proj', gguf: 'v.patch_embd' };
const mergerNorm25 = { hub: 'merger.ln_q', gguf: 'v.post_ln' };

const blockNames = {
  norm1: { hub: 'blocks.*.norm1', gguf: 'v.blk.*.ln1' },
  norm2: { hub: 'blocks.*.norm2', gguf: 'v.blk.*.ln2' },
  all: { hub: 'blocks.*.attn.qkv', gguf: 'v.blk.*.attn_qkv' },
  query: { gguf: 'v.blk.*.attn_q' },
  key: { gguf: 'v.blk.*.attn_k' },
  value: { gguf: 'v.blk.*.attn_v' },
  output: { hub: 'blocks.*.attn.proj', gguf: 'v.blk.*.attn_out' },
  gate: { hub: 'blocks.*.mlp.gate_proj', gguf: 'v.blk.*.ffn_gate' },
  up: { hub: 'blocks.*.mlp.up_proj', gguf: 'v.blk.*.ffn_up' },
  down: { hub: 'blocks.*.mlp.down_proj', gguf: 'v.blk.*.ffn_down' },
  fc1: { hub: 'blocks.*.mlp.linear_fc1', gguf: 'v.blk.*.ffn_up' },
  fc2: { hub: 'blocks.*.mlp.linear_fc2', gguf: 'v.blk.*.ffn_down' },
};

/** Queries, keys and values are in one tensor, or in three. */
function blockLinears(
  builder: VisionBuilder,
  at: (role: TowerMap | 'all') => string,
): (role: TowerMap, rows: number, columns: number) => LinearSpec {
  const fused = at('all');
  const isSplit = builder.source.naming === 'gguf' && !builder.has(`${fused}.weight`);
  return (role, rows, columns) => {
    const part = isSplit ? -1 : parts.indexOf(role);
    return part < 0
      ? builder.linear(at(role), rows, columns)
      : builder.linear(fused, rows, columns, { firstRow: part * rows });
  };
}

const parts: readonly TowerMap[] = ['query', 'key', 'value'];
