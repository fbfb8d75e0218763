// Gemma 4: as many tokens as a budget allows, a table of positions for each axis, norms on both sides of each branch, linear
// maps whose inputs and outputs are held within bounds.

import { readFloats } from '../../../weights/weight-source.ts';
import { fieldOf, isRecord, optionalFlag, optionalSize } from '../../config.ts';
import { withDefaults, withUsualNames } from '../../hugging-face-config.ts';
import type { LinearSpec } from '../../leaves.ts';
import { towerLayer } from '../tower-layer.ts';
import { type TowerName, VisionBuilder, type VisionFamily } from '../vision-builder.ts';
import type { GridRopePair, GridRopeSpec, TowerLayerStep, TowerStep } from '../vision-spec.ts';

const defaults = { layer_norm_eps: 1e-6, pooling_kernel_size: 3, patch_size: 16 };

export const gemma4: VisionFamily = {
  modelTypes: ['gemma4'],
  projectors: ['gemma4v'],
  build(given) {
    const named = withUsualNames(given.config, { layer_norm_eps: ['rms_norm_eps'] });
    const source = { ...given, config: withDefaults(named, defaults) };
    const builder = new VisionBuilder(source, ['model.vision_tower.', 'vision_tower.']);
    const embedder = new VisionBuilder(source, ['model.embed_vision.', 'embed_vision.']);
    const sizes = builder.sizes();
    const pool = optionalSize(source.config, 'pooling_kernel_size') ?? 3;
    const map = embedder.name({ hub: 'embedding_projection', gguf: 'mm.input_projection' });
    const { hiddenSize, epsilon } = sizes;
    return {
      preprocessing: {
        ...builder.preprocessing({
          kind: 'fill',
          factor: pool * sizes.patchSize,
          most: optionalSize(source.settings, 'max_soft_tokens') ?? 280,
        }),
        // The tower itself brings values around zero.
        mean: [0, 0, 0],
        deviation: [1, 1, 1],
      },
      tower: {
        steps: [
          ...towerSteps(builder),
          { kind: 'pool', size: pool },
          { kind: 'affine', factor: Math.sqrt(hiddenSize), shift: 0 },
          ...standardized(builder, hiddenSize),
          { kind: 'norm', norm: { leaf: 'norm', kind: 'rms', size: hiddenSize }, epsilon },
          { kind: 'linear', linear: embedder.linear(map, source.hiddenSize, hiddenSize) },
        ],
        join: { kind: 'sequence' },
      },
      prompt: {
        marker: '<|image|>',
        text: '<|image|>',
        layout: { kind: 'run', before: '<|image>', after: '<image|>' },
        reserved: ['<|image>', '<image|>'],
      },
    };
  },
};

function standardized(builder: VisionBuilder, size: number): TowerStep[] {
  if (optionalFlag(builder.source.config, 'standardize') !== true) return [];
  return [
    {
      kind: 'standardize',
      shifts: builder.vector(builder.name({ hub: 'std_bias', gguf: 'v.std_bias' }), size),
      scales: builder.vector(builder.name({ hub: 'std_scale', gguf: 'v.std_scale' }), size),
    },
  ];
}

function towerSteps(builder: VisionBuilder): TowerStep[] {
  const { source } = builder;
  const sizes = builder.sizes();
  const { hiddenSize, headSize, layerCount } = sizes;
  const table =
    source.naming === 'gguf'
      ? 'v.position_embd.weight'
      : builder.name({ hub: 'patch_embedder.position_embedding_table' });
  const rows = source.weights.tensors.get(table)?.shape.at(-2) ?? 1;
  const columns = builder.table(table, rows, hiddenSize);
  const rope = gemma4Rope(headSize, ropeBase(builder));
  return [
    {
      ...builder.patches(builder.name({ hub: 'patch_embedder.input_proj', gguf: 'v.patch_embd' }), sizes),
      values: { factor: 2, shift: -1 },
    },
    { kind: 'position-axes', columns, rows: { ...columns, firstRow: rows } },
    ...Array.from({ length: layerCount }, (_, layer) => gemma4Layer(builder, rope, layer)),
  ];
}

function ropeBase({ source: { config } }: VisionBuilder): number {
  const parameters = fieldOf(config, 'rope_parameters');
  const base = isRecord(parameters) ? parameters.rope_theta : undefined;
  return typeof base === 'number' && base > 1 ? base : 100;
}

/** The first half of a head turns by columns, the second by rows; pairs are (i, i + a quarter of the head). */
function gemma4Rope(headSize: number, base: number): GridRopeSpec {
  const half = headSize / 2;
  const quarter = half / 2;
  const pairs = Array.from({ length: half }, (_, pair): GridRopePair => {
    const isColumn = pair < quarter;
    const step = isColumn ? pair : pair - quarter;
    const first = isColumn ? step : half + step;
    return {
      axis: isColumn ? 'column' : 'row',
      frequency: base ** ((-2 * step) / half),
      first,
      second: first + quarter,
    };
  });
  return { origin: 0, pairs };
}

const names = {
  norm1: { hub: 'input_layernorm', gguf: 'ln1' },
  postNorm1: { hub: 'post_attention_layernorm', gguf: 'attn_post_norm' },
  norm2: { hub: 'pre_feedforward_layernorm', gguf: 'ln2' },
  postNorm2: { hub: 'post_feedforward_layernorm', gguf: 'ffn_post_norm' },
  query: { hub: 'self_attn.q_proj', gguf: 'attn_q' },
  key: { hub: 'self_attn.k_proj', gguf: 'attn_k' },
  value: { hub: 'self_attn.v_proj', gguf: 'attn_v' },
  output: { hub: 'self_attn.o_proj', gguf: 'attn_out' },
  queryNorm: { hub: 'self_attn.q_norm', gguf: 'attn_q_norm' },
  keyNorm: { hub: 'self_attn.k_norm', gguf: 'attn_k_norm' },
  gate: { hub: 'mlp.gate_proj', gguf: 'ffn_gate' },
  up: { hub: 'mlp.up_proj', gguf: 'ffn_up' },
  down: { hub: 'mlp.down_proj', gguf: 'ffn_down' },
} satisfies Readonly<Record<string, TowerName>>;

function gemma4Layer(builder: VisionBuilder, rope: GridRopeSpec, layer: number): TowerLayerStep {
  const sizes = builder.sizes();
  const { hiddenSize, headSize } = sizes;
  const at = (role: keyof typeof names) => {
    const { hub, gguf } = names[role];
    return builder.name({ hub: `encoder.layers.*.${hub}`, gguf: `v.blk.*.${gguf}` }, layer);
  };
  const norm = (role: keyof typeof names, size = hiddenSize) => builder.rmsNorm(at(role), size);
  return towerLayer(sizes, {
    linear: (role, rows, columns) => boundedLinear(builder, at(role), rows, columns),
    inputs: [norm('norm1'), norm('norm2')],
    outputs: [norm('postNorm1'), norm('postNorm2')],
    activation: 'gelu-tanh',
    gate: boundedLinear(builder, at('gate'), sizes.ffnSize, hiddenSize),
    attention: {
      queryNorm: norm('queryNorm', headSize),
      keyNorm: norm('keyNorm', headSize),
      valueNorm: { leaf: 'norm', kind: 'rms', size: headSize },
      rope,
      scale: 1,
    },
  });
}

/** Bounds count where the file has them. */
function boundedLinear(builder: VisionBuilder, name: string, rows: number, columns: number): LinearSpec {
  const inner = `${name}.linear`;
  const linear = builder.linear(builder.has(`${inner}.weight`) ? inner : name, rows, columns);
  const bound = (which: string): number | undefined => {
    const tensor = `${name}.${which}`;
    return builder.has(tensor) ? readFloats(builder.source.weights, tensor)[0] : undefined;
  };
  const [inputLeast, inputMost, least, most] = ['input_min', 'input_max', 'output_min', 'output_max'].map(
    bound,
  );
  if (inputLeast === undefined || inputMost === undefined || least === undefined || most === undefined)
    return linear;
  return { ...linear, bounds: { inputs: [inputLeast, inputMost], outputs: [least, most] } };
}
