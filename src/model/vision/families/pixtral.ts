// Pixtral's tower, of any size of picture, and Mistral 3's, which merges squares of patches.

import { fieldOf, isRecord, optionalPositive, optionalSize, size } from '../../config.ts';
import { type TowerMap, towerLayer } from '../tower-layer.ts';
import { sizeField, type TowerSizes, type VisionBuilder, type VisionFamily } from '../vision-builder.ts';
import type { VisionSource } from '../vision-source.ts';
import type { GridRopePair, GridRopeSpec, TowerLayerStep, TowerStep, VisionSpec } from '../vision-spec.ts';
import { openTower, type Tower, twoLayerProjector } from './clip.ts';

export const mistral3: VisionFamily = {
  modelTypes: ['mistral3'],
  projectors: ['pixtral'],
  build: (source) => buildPixtral(source),
};

/** What published files leave out. */
const defaults = {
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  image_size: 1024,
  patch_size: 16,
  layer_norm_eps: 1e-5,
};

export function buildPixtral(given: VisionSource): VisionSpec {
  const tower = openTower(given, given.naming === 'gguf' ? {} : defaults);
  const { source, builder, sizes } = tower;
  const { outer, config } = source;
  const merge = optionalSize(outer, 'spatial_merge_size') ?? optionalSize(config, 'spatial_merge_size') ?? 1;
  const longest = sizeField(source, 'size', 'longest_edge') ?? size(config, 'image_size');
  const rope = pixtralRope(sizes.headSize, ropeBase(source));
  return {
    preprocessing: builder.preprocessing({ kind: 'edge', longest, factor: sizes.patchSize * merge }),
    tower: {
      steps: [
        builder.patches(builder.name(names.patches), sizes),
        {
          kind: 'norm',
          norm: builder.rmsNorm(builder.name(names.preNorm), sizes.hiddenSize),
          epsilon: sizes.epsilon,
        },
        ...Array.from({ length: sizes.layerCount }, (_, layer) => pixtralLayer(builder, sizes, rope, layer)),
        ...(merge > 1 ? mergeSteps(tower, merge) : []),
        ...twoLayerProjector(tower, sizes.hiddenSize),
      ],
      join: { kind: 'sequence' },
    },
    prompt: {
      marker: '[IMG]',
      text: '[IMG]',
      layout: { kind: 'rows', between: '[IMG_BREAK]', end: '[IMG_END]' },
      reserved: ['[IMG_BREAK]', '[IMG_END]'],
    },
  };
}

function ropeBase({ config }: VisionSource): number {
  const parameters = fieldOf(config, 'rope_parameters');
  const nested = isRecord(parameters) ? { ...config, fields: parameters } : config;
  return optionalPositive(nested, 'rope_theta') ?? 10_000;
}

function mergeSteps({ projector, sizes, source }: Tower, merge: number): TowerStep[] {
  const { hiddenSize } = sizes;
  const norm = projector.name({ hub: 'norm', gguf: 'mm.input_norm' });
  const map = projector.name({ hub: 'patch_merger.merging_layer', gguf: 'mm.patch_merger' });
  return [
    { kind: 'norm', norm: projector.rmsNorm(norm, hiddenSize), epsilon: source.textEpsilon },
    { kind: 'merge', size: merge, order: 'channels' },
    { kind: 'linear', linear: projector.linear(map, hiddenSize, hiddenSize * merge ** 2) },
  ];
}

/** Of the frequencies of a head every other one is for rows, the others for columns. */
function pixtralRope(headSize: number, base: number): GridRopeSpec {
  const half = headSize / 2;
  const pairs = Array.from({ length: half }, (_, pair): GridRopePair => {
    const isRow = pair < half / 2;
    const step = isRow ? 2 * pair : 2 * (pair - half / 2) + 1;
    const frequency = base ** ((-2 * step) / headSize);
    return { axis: isRow ? 'row' : 'column', frequency, first: pair, second: pair + half };
  });
  return { origin: 0, pairs };
}

const names = {
  patches: { hub: 'patch_conv', gguf: 'v.patch_embd' },
  preNorm: { hub: 'ln_pre', gguf: 'v.pre_ln' },
  norm1: { hub: 'transformer.layers.*.attention_norm', gguf: 'v.blk.*.ln1' },
  norm2: { hub: 'transformer.layers.*.ffn_norm', gguf: 'v.blk.*.ln2' },
  query: { hub: 'transformer.layers.*.attention.q_proj', gguf: 'v.blk.*.attn_q' },
  key: { hub: 'transformer.layers.*.attention.k_proj', gguf: 'v.blk.*.attn_k' },
  value: { hub: 'transformer.layers.*.attention.v_proj', gguf: 'v.blk.*.attn_v' },
  output: { hub: 'transformer.layers.*.attention.o_proj', gguf: 'v.blk.*.attn_out' },
  gate: { hub: 'transformer.layers.*.feed_forward.gate_proj', gguf: 'v.blk.*.ffn_gate' },
  up: { hub: 'transformer.layers.*.feed_forward.up_proj', gguf: 'v.blk.*.ffn_up' },
  down: { hub: 'transformer.layers.*.feed_forward.down_proj', gguf: 'v.blk.*.ffn_down' },
};

function pixtralLayer(
  builder: VisionBuilder,
  sizes: TowerSizes,
  rope: GridRopeSpec,
  layer: number,
): TowerLayerStep {
  const { hiddenSize, headCount, headSize } = sizes;
  const at = (name: keyof typeof names) => builder.name(names[name], layer);
  // Converters to GGUF sort rows for pairs (2i, 2i + 1).
  const turned = { interleaved: { heads: headCount, rotated: headSize } };
  const isSorted = (role: TowerMap) =>
    builder.source.naming === 'gguf' && (role === 'query' || role === 'key');
  return towerLayer(sizes, {
    linear: (role, rows, columns) => builder.linear(at(role), rows, columns, isSorted(role) ? turned : {}),
    inputs: [builder.rmsNorm(at('norm1'), hiddenSize), builder.rmsNorm(at('norm2'), hiddenSize)],
    activation: 'silu',
    gate: builder.linear(at('gate'), sizes.ffnSize, hiddenSize),
    attention: { rope },
  });
}
