// LLaVA: CLIP's tower without its last layer, or Pixtral's; OneVision around SigLIP's.

import { configError, fieldOf, optionalText, size } from '../../config.ts';
import type { ImagePromptSpec } from '../image-prompt.ts';
import type { TileSize } from '../preprocessing.ts';
import { sizeField, type VisionFamily } from '../vision-builder.ts';
import type { VisionSource } from '../vision-source.ts';
import type { TowerStep, VisionSpec } from '../vision-spec.ts';
import { clipSteps, layersTaken, openTower, towerKind, twoLayerProjector } from './clip.ts';
import { buildPixtral } from './pixtral.ts';

/** A whole in SigLIP's smallest view and, of a picture alone, tiles of a canvas that suits it. */
export const llavaOnevision: VisionFamily = {
  modelTypes: ['llava_onevision'],
  projectors: [],
  build(given) {
    const tower = openTower(given);
    const { source, builder, sizes } = tower;
    const { hiddenSize } = source;
    const side = size(source.config, 'image_size');
    const tile = {
      width: sizeField(source, 'size', 'width') ?? side,
      height: sizeField(source, 'size', 'height') ?? side,
    };
    const newline =
      ['image_newline', 'model.image_newline'].find((name) => builder.has(name)) ?? 'image_newline';
    const alone = builder.preprocessing({ kind: 'centred-canvas', canvases: canvasesOf(source), ...tile });
    const [red, green, blue] = alone.mean;
    const colour = [Math.trunc(red * 255), Math.trunc(green * 255), Math.trunc(blue * 255)] as const;
    return {
      preprocessing: { ...alone, amongSeveral: { kind: 'square', colour, ...tile } },
      tower: {
        steps: [
          ...clipSteps(tower, { layers: layersTaken(source, sizes.layerCount) }),
          ...twoLayerProjector(tower, sizes.hiddenSize),
        ],
        join: { kind: 'grid', newline: builder.vector(newline, hiddenSize), most: mostTiles(source) },
      },
      prompt: imagePrompt,
    };
  },
};

/** Pairs of height and width. */
function canvasesOf({ settings, outer }: VisionSource): readonly TileSize[] {
  const field = 'image_grid_pinpoints';
  const given = fieldOf(settings, field) ?? fieldOf(outer, field);
  const isSide = (side: unknown) =>
    typeof side === 'number' && Number.isInteger(side) && side > 0 && side < 2 ** 16;
  const isPair = (pair: unknown) => Array.isArray(pair) && pair.length === 2 && pair.every(isSide);
  if (Array.isArray(given) && given.length > 0 && given.every(isPair)) {
    return given.map(([height, width]) => ({ width, height }));
  }
  throw configError(settings, field, 'must be pairs of the height and width of canvases');
}

function mostTiles({ outer }: VisionSource): number {
  const ratio = optionalText(outer, 'vision_aspect_ratio') ?? 'anyres_max_9';
  const most = Number(/^anyres_max_(\d+)$/.exec(ratio)?.[1]);
  if (most > 0) return most;
  throw configError(outer, 'vision_aspect_ratio', `"${ratio}" is not supported`);
}

const imagePrompt: ImagePromptSpec = {
  marker: '<image>',
  text: '<image>',
  layout: { kind: 'run', before: '', after: '' },
  reserved: [],
};

export const llava: VisionFamily = {
  modelTypes: ['llava'],
  projectors: [],
  build: (source) => (towerKind(source) === 'pixtral' ? buildPixtral(source) : build(source)),
};

function build(given: VisionSource): VisionSpec {
  const tower = openTower(given, { layer_norm_eps: 1e-5, hidden_act: 'quick_gelu' });
  const { source, builder, sizes } = tower;
  const { outer, config } = source;
  if (towerKind(source) !== 'clip_vision_model') {
    throw configError(
      config,
      'model_type',
      `towers of kind ${JSON.stringify(towerKind(source))} are not supported`,
    );
  }
  const strategy = optionalText(outer, 'vision_feature_select_strategy') ?? 'default';
  if (strategy !== 'default') {
    throw configError(outer, 'vision_feature_select_strategy', `"${strategy}" is not supported`);
  }
  const side = sizeField(source, 'crop_size', 'height') ?? size(config, 'image_size');
  const shortest = sizeField(source, 'size', 'shortest_edge') ?? side;
  const dropped: TowerStep = { kind: 'drop-class-token' };
  return {
    preprocessing: builder.preprocessing({ kind: 'centre', shortest, width: side, height: side }),
    tower: {
      steps: [
        ...clipSteps(tower, {
          layers: layersTaken(source, sizes.layerCount),
          classToken: true,
          preNorm: true,
        }),
        dropped,
        ...twoLayerProjector(tower, sizes.hiddenSize),
      ],
      join: { kind: 'sequence' },
    },
    prompt: imagePrompt,
  };
}
