// Families around SigLIP: Gemma 3, PaliGemma, SmolVLM and Idefics 3, LFM 2 VL.

import { fieldOf, optionalFlag, optionalSize, size } from '../../config.ts';
import { sizeField, type VisionFamily } from '../vision-builder.ts';
import type { VisionSource } from '../vision-source.ts';
import type { TowerStep } from '../vision-spec.ts';
import { clipSteps, openTower, siglipDefaults, tableRows, twoLayerProjector } from './clip.ts';

const imageToken = '<image>';

export const gemma3: VisionFamily = {
  modelTypes: ['gemma3'],
  projectors: ['gemma3'],
  build(given) {
    const { source, builder, projector, sizes, ...rest } = openTower(given);
    const tower = { source, builder, projector, sizes, ...rest };
    const { hiddenSize } = sizes;
    const side = size(source.config, 'image_size');
    // The hub's file has no `.weight` at its end, and inputs as rows, as projector files have, too.
    const matrix =
      source.naming === 'gguf'
        ? 'mm.input_projection.weight'
        : projector.name({ hub: 'mm_input_projection_weight' });
    const norm = projector.rmsNorm(
      projector.name({ hub: 'mm_soft_emb_norm', gguf: 'mm.soft_emb_norm' }),
      hiddenSize,
    );
    return {
      preprocessing: builder.preprocessing({ kind: 'fixed', width: side, height: side }, 'bilinear'),
      tower: {
        steps: [
          ...clipSteps(tower, { postNorm: true }),
          { kind: 'pool', size: poolOf(source, side / sizes.patchSize) },
          {
            kind: 'norm',
            norm: source.naming === 'gguf' ? norm : { ...norm, offset: 1 },
            epsilon: sizes.epsilon,
          },
          {
            kind: 'linear',
            linear: {
              leaf: 'linear',
              weight: {
                tensor: matrix,
                firstRow: 0,
                rows: source.hiddenSize,
                transposed: { rows: source.hiddenSize },
              },
              columns: hiddenSize,
              adaptable: false,
            },
          },
        ],
        join: { kind: 'sequence' },
      },
      prompt: {
        marker: '<start_of_image>',
        text: '<image_soft_token>',
        layout: { kind: 'run', before: '\n\n<start_of_image>', after: '<end_of_image>\n\n' },
        reserved: ['<end_of_image>'],
      },
    };
  },
};

/** As its processor writes prompts: images, the beginning of the text, the texts, a line break. */
const paliGemmaTemplate = `{% set ns = namespace(texts=[]) -%}
{% for message in messages -%}
  {% if message.content is string -%}
    {% set ns.texts = ns.texts + [message.content] -%}
  {% else -%}
    {% for part in message.content -%}
      {% if part.type == 'image' %}<image>{% else %}{% set ns.texts = ns.texts + [part.text] %}{% endif -%}
    {% endfor -%}
  {% endif -%}
{% endfor -%}
{{ bos_token }}{{ ns.texts | join(' ') }}{{ '\\n' }}`;

export const paliGemma: VisionFamily = {
  modelTypes: ['paligemma'],
  projectors: [],
  build(given) {
    const tower = openTower(given);
    const { source, builder, projector, sizes } = tower;
    const side = size(source.config, 'image_size');
    const map = projector.name({ hub: 'linear' });
    return {
      preprocessing: builder.preprocessing({ kind: 'fixed', width: side, height: side }),
      tower: {
        steps: [
          ...clipSteps(tower, { postNorm: true }),
          { kind: 'linear', linear: projector.linear(map, source.hiddenSize, sizes.hiddenSize) },
        ],
        join: { kind: 'sequence' },
      },
      prompt: {
        marker: imageToken,
        text: imageToken,
        layout: { kind: 'run', before: '', after: '' },
        reserved: [],
        template: paliGemmaTemplate,
      },
    };
  },
};

/** Folders count tokens, projector files say how many patches become one. */
function poolOf({ config, outer }: VisionSource, patches: number): number {
  const tokens = optionalSize(outer, 'mm_tokens_per_image');
  if (tokens === undefined) return optionalSize(config, 'scale_factor') ?? 4;
  return Math.floor(patches / Math.sqrt(tokens));
}

const around = '<fake_token_around_image>';

/** What published files leave out. */
const idefics3Defaults = { ...siglipDefaults, intermediate_size: 3072, num_hidden_layers: 12 };

export const idefics3: VisionFamily = {
  modelTypes: ['smolvlm', 'idefics3'],
  projectors: ['idefics3'],
  build(given) {
    const tower = openTower(given, given.naming === 'gguf' ? siglipDefaults : idefics3Defaults);
    const { source, builder, projector, sizes } = tower;
    const merge =
      optionalSize(source.outer, 'scale_factor') ?? optionalSize(source.config, 'scale_factor') ?? 2;
    const inputs = sizes.hiddenSize * merge ** 2;
    const tile = size(source.config, 'image_size');
    const map = projector.name({ hub: 'modality_projection.proj', gguf: 'mm.model.fc' });
    return {
      preprocessing: builder.preprocessing(
        {
          kind: 'edge-tiles',
          longest:
            sizeField(source, 'size', 'longest_edge') ??
            optionalSize(source.config, 'longest_edge') ??
            4 * tile,
          tile: sizeField(source, 'max_image_size', 'longest_edge') ?? tile,
          splits: optionalFlag(source.settings, 'do_image_splitting') ?? true,
        },
        'lanczos',
      ),
      tower: {
        steps: [
          ...clipSteps(tower, { postNorm: true }),
          { kind: 'merge', size: merge, order: 'cells' },
          { kind: 'linear', linear: projector.linear(map, source.hiddenSize, inputs) },
        ],
        join: { kind: 'sequence' },
      },
      prompt: {
        marker: imageToken,
        text: imageToken,
        layout: {
          kind: 'views',
          before: '',
          tile: `${around}<row_{row}_col_{column}>`,
          betweenTiles: '',
          afterRow: '\n',
          whole: `\n${around}<global-img>`,
          alone: `${around}<global-img>`,
          after: around,
        },
        reserved: [around, '<global-img>'],
      },
    };
  },
};

export const lfm2Vl: VisionFamily = {
  modelTypes: ['lfm2_vl'],
  projectors: ['lfm2'],
  build(given) {
    const tower = openTower(given);
    const { source, builder, projector, sizes } = tower;
    const { settings, outer, config } = source;
    const merge = optionalSize(outer, 'downsample_factor') ?? optionalSize(config, 'scale_factor') ?? 2;
    const factor = sizes.patchSize * merge;
    const inputs = sizes.hiddenSize * merge ** 2;
    const norm = projector.name({ hub: 'layer_norm', gguf: 'mm.input_norm' });
    const normStep: TowerStep = { kind: 'norm', norm: projector.layerNorm(norm, inputs), epsilon: 1e-5 };
    const setting = (field: string, usual: number) => optionalSize(settings, field) ?? usual;
    return {
      preprocessing: {
        ...builder.preprocessing(
          {
            kind: 'area-or-tiles',
            factor,
            patch: sizes.patchSize,
            leastArea: setting('min_image_tokens', 64) * factor ** 2,
            mostArea: setting('max_image_tokens', 256) * factor ** 2,
            tolerance: numberOf(fieldOf(settings, 'max_pixels_tolerance'), 2),
            tile: setting('tile_size', 512),
            leastTiles: setting('min_tiles', 2),
            mostTiles: setting('max_tiles', 10),
            splits: optionalFlag(settings, 'do_image_splitting') ?? true,
            thumbnail: optionalFlag(settings, 'use_thumbnail') ?? true,
          },
          'bilinear',
        ),
        precision: 'torchvision',
      },
      tower: {
        steps: [
          ...clipSteps(tower, {
            postNorm: true,
            positions: (table) => ({
              kind: 'position-grid',
              table: builder.table(table, tableRows(builder, table), sizes.hiddenSize),
              by: 'antialias',
            }),
          }),
          { kind: 'merge', size: merge, order: 'cells' },
          ...(projector.has(`${norm}.weight`) ? [normStep] : []),
          ...twoLayerProjector(tower, inputs),
        ],
        join: { kind: 'sequence' },
      },
      prompt: {
        marker: imageToken,
        text: imageToken,
        layout: {
          kind: 'views',
          before: '<|image_start|>',
          tile: '<|img_row_{row}_col_{column}|>',
          betweenTiles: '',
          afterRow: '',
          whole: '<|img_thumbnail|>',
          alone: '',
          after: '<|image_end|>',
        },
        reserved: ['<|image_start|>', '<|image_end|>', '<|img_thumbnail|>'],
      },
    };
  },
};

function numberOf(value: unknown, usual: number): number {
  return typeof value === 'number' && value > 0 ? value : usual;
}
