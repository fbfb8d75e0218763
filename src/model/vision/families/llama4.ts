// Llama 4: tiles of a canvas and the whole, a class token at the end, rotated pairs (2i, 2i + 1), pixels in bfloat16.

import { optionalPositive, optionalSize, size } from '../../config.ts';
import { withDefaults } from '../../hugging-face-config.ts';
import { towerLayer } from '../tower-layer.ts';
import { sizeField, VisionBuilder, type VisionFamily } from '../vision-builder.ts';
import type { GridRopePair, GridRopeSpec, TowerLayerStep, TowerStep } from '../vision-spec.ts';
import { tableRows } from './clip.ts';

const defaults = { layer_norm_eps: 1e-5, pixel_shuffle_ratio: 0.5 };

export const llama4: VisionFamily = {
  modelTypes: ['llama4'],
  projectors: [],
  build(given) {
    const source = { ...given, config: withDefaults(given.config, defaults) };
    const builder = new VisionBuilder(source, ['vision_model.', 'model.vision_model.']);
    const projector = new VisionBuilder(source, ['multi_modal_projector.', 'model.multi_modal_projector.']);
    const side = size(source.config, 'image_size');
    const tile = {
      width: sizeField(source, 'size', 'width') ?? side,
      height: sizeField(source, 'size', 'height') ?? side,
    };
    const outputs = size(source.config, 'vision_output_dim');
    const map = projector.linear(projector.name({ hub: 'linear_1' }), source.hiddenSize, outputs);
    return {
      preprocessing: {
        ...builder.preprocessing(
          { kind: 'corner-canvas', most: optionalSize(source.settings, 'max_patches') ?? 16, ...tile },
          'bilinear',
        ),
        precision: 'torchvision',
        bfloat16: true,
      },
      tower: { steps: [...steps(builder), { kind: 'linear', linear: map }], join: { kind: 'sequence' } },
      prompt: {
        marker: '<|image|>',
        text: '<|patch|>',
        layout: {
          kind: 'views',
          before: '<|image_start|>',
          tile: '',
          betweenTiles: '<|tile_x_separator|>',
          afterRow: '<|tile_y_separator|>',
          whole: '<|image|>',
          alone: '<|image|>',
          after: '<|image_end|>',
        },
        reserved: ['<|image_start|>', '<|image_end|>', '<|tile_x_separator|>', '<|tile_y_separator|>'],
      },
    };
  },
};

function steps(builder: VisionBuilder): TowerStep[] {
  const { config } = builder.source;
  const sizes = builder.sizes();
  const { hiddenSize, epsilon, headSize, layerCount } = sizes;
  const norm = (hub: string): TowerStep => ({
    kind: 'norm',
    norm: builder.layerNorm(builder.name({ hub }), hiddenSize),
    epsilon,
  });
  const merge = Math.round(1 / (optionalPositive(config, 'pixel_shuffle_ratio') ?? 0.5));
  const inner = size(config, 'projector_input_dim');
  const outer = size(config, 'projector_output_dim');
  const table = builder.name({ hub: 'positional_embedding_vlm' });
  const rope = llama4Rope(headSize);
  const adapter = (hub: string, rows: number, columns: number): TowerStep[] => [
    {
      kind: 'linear',
      linear: builder.linear(builder.name({ hub: `vision_adapter.mlp.${hub}` }), rows, columns),
    },
    { kind: 'activation', activation: 'gelu' },
  ];
  const token = builder.vector(builder.name({ hub: 'class_embedding' }), hiddenSize);
  return [
    { ...builder.patches(builder.name({ hub: 'patch_embedding.linear' }), sizes), order: 'channels-first' },
    { kind: 'class-token', token, place: 'last' },
    { kind: 'position-table', table: builder.table(table, tableRows(builder, table), hiddenSize) },
    norm('layernorm_pre'),
    ...Array.from({ length: layerCount }, (_, layer) => llama4Layer(builder, rope, layer)),
    norm('layernorm_post'),
    { kind: 'drop-class-token' },
    { kind: 'merge', size: merge, order: 'cells' },
    ...adapter('fc1', inner, hiddenSize * merge ** 2),
    ...adapter('fc2', outer, inner),
  ];
}

/** Half of the pairs turn by columns, half by rows, all of which count from 1. */
function llama4Rope(headSize: number): GridRopeSpec {
  const half = headSize / 2;
  const pairs = Array.from({ length: half }, (_, pair): GridRopePair => {
    const isColumn = pair < half / 2;
    const frequency = 10_000 ** ((-2 * (isColumn ? pair : pair - half / 2)) / half);
    return { axis: isColumn ? 'column' : 'row', frequency, first: 2 * pair, second: 2 * pair + 1 };
  });
  return { origin: 1, pairs };
}

const maps = {
  query: 'self_attn.q_proj',
  key: 'self_attn.k_proj',
  value: 'self_attn.v_proj',
  output: 'self_attn.o_proj',
  up: 'mlp.fc1',
  down: 'mlp.fc2',
};

function llama4Layer(builder: VisionBuilder, rope: GridRopeSpec, layer: number): TowerLayerStep {
  const sizes = builder.sizes();
  const at = (hub: string) => builder.name({ hub: `model.layers.*.${hub}` }, layer);
  const norm = (hub: string) => builder.layerNorm(at(hub), sizes.hiddenSize);
  return towerLayer(sizes, {
    linear: (role, rows, columns) => builder.linear(at(maps[role]), rows, columns),
    inputs: [norm('input_layernorm'), norm('post_attention_layernorm')],
    activation: 'gelu',
    attention: { rope },
  });
}
