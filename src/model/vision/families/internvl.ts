// InternVL: a tower with a class token, scales of what each layer adds, and norms over queries and keys in its larger size.

import { fieldOf, optionalFlag, optionalPositive, optionalSize, optionalText } from '../../config.ts';
import type { NormSpec } from '../../leaves.ts';
import { towerLayer } from '../tower-layer.ts';
import { sizeField, type VisionFamily } from '../vision-builder.ts';
import type { VisionSource } from '../vision-source.ts';
import type { TowerLayerStep } from '../vision-spec.ts';
import { layersTaken, openTower, type Tower, tableRows, towerActivation, twoLayerProjector } from './clip.ts';

const defaults = { layer_norm_eps: 1e-6, hidden_act: 'gelu' };

export const internvl: VisionFamily = {
  modelTypes: ['internvl'],
  projectors: [],
  build(given) {
    const tower = openTower(squareSizes(given), defaults);
    const { source, builder, projector, sizes } = tower;
    const { hiddenSize } = sizes;
    const ratio = optionalPositive(source.outer, 'downsample_ratio') ?? 0.5;
    const merge = Math.round(1 / ratio);
    const inputs = hiddenSize * merge ** 2;
    const table = builder.name({ hub: 'embeddings.position_embeddings' });
    const tile = {
      width: sizeField(source, 'size', 'width') ?? 448,
      height: sizeField(source, 'size', 'height') ?? 448,
    };
    const tiles = (field: string, usual: number) => optionalSize(source.settings, field) ?? usual;
    return {
      // Its processor cuts pictures into tiles whatever `crop_to_patches` says in its files.
      preprocessing: builder.preprocessing({
        kind: 'grid-tiles',
        least: tiles('min_patches', 1),
        most: tiles('max_patches', 12),
        ...tile,
      }),
      tower: {
        steps: [
          builder.patches(builder.name({ hub: 'embeddings.patch_embeddings.projection' }), sizes),
          {
            kind: 'class-token',
            token: builder.vector(builder.name({ hub: 'embeddings.cls_token' }), hiddenSize),
            place: 'first',
          },
          { kind: 'position-table', table: builder.table(table, tableRows(builder, table), hiddenSize) },
          ...Array.from({ length: layersTaken(source, sizes.layerCount) }, (_, layer) =>
            internLayer(tower, layer),
          ),
          { kind: 'drop-class-token' },
          { kind: 'merge', size: merge, order: 'cells' },
          {
            kind: 'norm',
            norm: projector.layerNorm(projector.name({ hub: 'layer_norm' }), inputs),
            epsilon: 1e-5,
          },
          ...twoLayerProjector(tower, inputs),
        ],
        join: { kind: 'sequence' },
      },
      prompt: {
        marker: '<IMG_CONTEXT>',
        text: '<IMG_CONTEXT>',
        layout: { kind: 'run', before: '<img>', after: '</img>' },
        reserved: ['<img>', '</img>'],
      },
    };
  },
};

/** Files give the two sides of patches, which are as long as each other. */
function squareSizes(source: VisionSource): VisionSource {
  const patch = fieldOf(source.config, 'patch_size');
  if (!Array.isArray(patch) || patch[0] !== patch[1]) return source;
  return {
    ...source,
    config: { ...source.config, fields: { ...source.config.fields, patch_size: patch[0] } },
  };
}

const names = {
  norm1: 'layernorm_before',
  norm2: 'layernorm_after',
  query: 'attention.q_proj',
  key: 'attention.k_proj',
  value: 'attention.v_proj',
  queryNorm: 'attention.q_norm',
  keyNorm: 'attention.k_norm',
  output: 'attention.projection_layer',
  up: 'mlp.fc1',
  down: 'mlp.fc2',
  scales1: 'lambda_1',
  scales2: 'lambda_2',
};

function internLayer({ builder, sizes, source }: Tower, layer: number): TowerLayerStep {
  const { hiddenSize } = sizes;
  const { config } = source;
  const at = (name: keyof typeof names) => builder.name({ hub: `encoder.layer.*.${names[name]}` }, layer);
  const isRms = optionalText(config, 'norm_type') === 'rms_norm';
  const norm = (name: 'norm1' | 'norm2'): NormSpec =>
    isRms ? builder.rmsNorm(at(name), hiddenSize) : builder.layerNorm(at(name), hiddenSize);
  const headNorms =
    optionalFlag(config, 'use_qk_norm') === true
      ? {
          queryNorm: builder.rmsNorm(at('queryNorm'), hiddenSize),
          keyNorm: builder.rmsNorm(at('keyNorm'), hiddenSize),
        }
      : undefined;
  return towerLayer(sizes, {
    linear: (role, rows, columns) => builder.linear(at(role), rows, columns),
    inputs: [norm('norm1'), norm('norm2')],
    scales: [builder.vector(at('scales1'), hiddenSize), builder.vector(at('scales2'), hiddenSize)],
    activation: towerActivation(source),
    attention: headNorms,
  });
}
