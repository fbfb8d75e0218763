// GLM 4V: a grid of positions that is interpolated by a cubic, squares of patches merged by a convolution, a gated projector.

import { size } from '../../config.ts';
import { withDefaults, withUsualNames } from '../../hugging-face-config.ts';
import { sizeField, type TowerName, VisionBuilder, type VisionFamily } from '../vision-builder.ts';
import type { TowerStep } from '../vision-spec.ts';
import { tableRows } from './clip.ts';
import { gatedLayer } from './qwen-vl.ts';

/** Of the projector's own layer norm. */
const NORM_EPSILON = 1e-5;

const defaults = { layer_norm_eps: 1e-5, spatial_merge_size: 2, temporal_patch_size: 2 };

export const glm4v: VisionFamily = {
  modelTypes: ['glm4v'],
  projectors: ['glm4v'],
  build(given) {
    const named = withUsualNames(given.config, {
      num_hidden_layers: ['depth'],
      num_attention_heads: ['num_heads'],
      layer_norm_eps: ['rms_norm_eps'],
    });
    const source = { ...given, config: withDefaults(named, defaults) };
    const builder = new VisionBuilder(source, ['model.visual.', 'visual.']);
    const sizes = builder.sizes();
    const merge = size(source.config, 'spatial_merge_size');
    const factor = sizes.patchSize * merge;
    // Each picture is counted as two frames.
    const frames = 2;
    return {
      preprocessing: builder.preprocessing({
        kind: 'area',
        factor,
        leastArea: sizeField(source, 'size', 'shortest_edge') ?? 112 * 112,
        mostArea: sizeField(source, 'size', 'longest_edge') ?? 28 * 28 * 15_000,
        frames,
      }),
      tower: { steps: steps(builder, merge), join: { kind: 'sequence' } },
      prompt: {
        marker: '<|image|>',
        text: '<|image|>',
        layout: { kind: 'run', before: '', after: '' },
        reserved: ['<|begin_of_image|>', '<|end_of_image|>'],
        positions: 'three-part',
      },
    };
  },
};

const names = {
  patches: { hub: 'patch_embed.proj', gguf: 'v.patch_embd' },
  firstNorm: { hub: 'post_conv_layernorm', gguf: 'v.norm_embd' },
  positions: { hub: 'embeddings.position_embedding', gguf: 'v.position_embd' },
  lastNorm: { hub: 'post_layernorm', gguf: 'v.post_ln' },
  merge: { hub: 'downsample', gguf: 'mm.patch_merger' },
  proj: { hub: 'merger.proj', gguf: 'mm.model.fc' },
  projNorm: { hub: 'merger.post_projection_norm', gguf: 'mm.post_norm' },
  gate: { hub: 'merger.gate_proj', gguf: 'mm.gate' },
  up: { hub: 'merger.up_proj', gguf: 'mm.up' },
  down: { hub: 'merger.down_proj', gguf: 'mm.down' },
} satisfies Readonly<Record<string, TowerName>>;

function steps(builder: VisionBuilder, merge: number): TowerStep[] {
  const sizes = builder.sizes();
  const { hiddenSize, epsilon, layerCount, ffnSize } = sizes;
  const { hiddenSize: out } = builder.source;
  const name = (role: keyof typeof names) => builder.name(names[role]);
  const norm = (role: keyof typeof names): TowerStep => ({
    kind: 'norm',
    norm: builder.rmsNorm(name(role), hiddenSize),
    epsilon,
  });
  const table = `${name('positions')}.weight`;
  return [
    builder.patches(name('patches'), sizes),
    norm('firstNorm'),
    {
      kind: 'position-grid',
      table: builder.table(table, tableRows(builder, table), hiddenSize),
      by: 'cubic',
    },
    ...Array.from({ length: layerCount }, (_, layer) => gatedLayer(builder, sizes, layer)),
    norm('lastNorm'),
    { kind: 'merge', size: merge, order: 'channels' },
    { kind: 'linear', linear: builder.kernel(name('merge'), out, hiddenSize * merge ** 2) },
    { kind: 'linear', linear: builder.linear(name('proj'), out, out) },
    { kind: 'norm', norm: builder.layerNorm(name('projNorm'), out), epsilon: NORM_EPSILON },
    { kind: 'activation', activation: 'gelu' },
    {
      kind: 'feed-forward',
      mlp: {
        kind: 'tower-mlp',
        activation: 'silu',
        gate: builder.linear(name('gate'), ffnSize, out),
        up: builder.linear(name('up'), ffnSize, out),
        down: builder.linear(name('down'), out, ffnSize),
      },
    },
  ];
}
