// CLIP's and SigLIP's towers, which most families are built around: a table of positions, layer norms before attention and
// feed-forward, biases everywhere.

import { configError, fieldOf, isRecord, optionalText } from '../../config.ts';
import { withDefaults } from '../../hugging-face-config.ts';
import { activationOf } from '../../layer-config.ts';
import { towerLayer } from '../tower-layer.ts';
import { type TowerName, type TowerSizes, VisionBuilder } from '../vision-builder.ts';
import type { VisionSource } from '../vision-source.ts';
import type { TowerActivation, TowerLayerStep, TowerStep } from '../vision-spec.ts';

/** As the hub's files name a tower within a model, older ones first. */
export const towerPrefixes = [
  'vision_tower.vision_model.',
  'model.vision_tower.vision_model.',
  'vision_tower.',
  'model.vision_tower.',
  'model.vision_model.',
];

const projectorPrefixes = ['multi_modal_projector.', 'model.multi_modal_projector.', 'model.connector.'];

export const siglipDefaults = { layer_norm_eps: 1e-6, hidden_act: 'gelu_pytorch_tanh' };

export interface Tower {
  readonly source: VisionSource;
  readonly builder: VisionBuilder;
  /** Names what lies between tower and text model. */
  readonly projector: VisionBuilder;
  readonly sizes: TowerSizes;
}

/** `defaults`: fields that files leave out. */
export function openTower(
  given: VisionSource,
  defaults: Readonly<Record<string, unknown>> = siglipDefaults,
): Tower {
  const source = { ...given, config: withDefaults(given.config, defaults) };
  const builder = new VisionBuilder(source, towerPrefixes);
  return { source, builder, projector: new VisionBuilder(source, projectorPrefixes), sizes: builder.sizes() };
}

interface ClipOptions {
  /** Default: all of them. */
  readonly layers?: number;
  readonly classToken?: boolean;
  /** A norm before the first layer. */
  readonly preNorm?: boolean;
  readonly postNorm?: boolean;
  /** How positions are found; default: a row for each token. */
  readonly positions?: (table: string) => TowerStep;
}

export function clipSteps({ builder, sizes, source }: Tower, options: ClipOptions): TowerStep[] {
  const { hiddenSize, epsilon, layerCount } = sizes;
  const { classToken = false, preNorm = false, postNorm = false, layers = layerCount } = options;
  const activation = towerActivation(source);
  const norm = (name: TowerName): TowerStep => ({
    kind: 'norm',
    norm: builder.layerNorm(builder.name(name), hiddenSize),
    epsilon,
  });
  const table = `${builder.name(names.positions)}.weight`;
  const own: TowerStep = {
    kind: 'position-table',
    table: builder.table(table, tableRows(builder, table), hiddenSize),
  };
  return [
    builder.patches(builder.name(names.patches), sizes),
    ...(classToken ? [classTokenStep(builder, hiddenSize)] : []),
    options.positions?.(table) ?? own,
    ...(preNorm ? [norm(names.preNorm)] : []),
    ...Array.from({ length: layers }, (_, layer) => clipLayer(builder, sizes, activation, layer)),
    ...(postNorm ? [norm(names.postNorm)] : []),
  ];
}

/** As many as the file has: a view of another size is refused when it is read. */
export function tableRows({ source }: VisionBuilder, table: string): number {
  return source.weights.tensors.get(table)?.shape.at(-2) ?? 1;
}

function classTokenStep(builder: VisionBuilder, size: number): TowerStep {
  const token = builder.vector(builder.name(names.classToken), size);
  return { kind: 'class-token', token, place: 'first' };
}

const quickGelus = ['quick_gelu', 'quickgelu'];

export function towerActivation({ config, naming }: VisionSource): TowerActivation {
  // Projector files flag the two kinds of which theirs may be.
  if (naming === 'gguf') return 'gelu-tanh';
  if (quickGelus.includes(optionalText(config, 'hidden_act') ?? '')) return 'quick-gelu';
  const activation = activationOf(config, 'gelu-tanh');
  if (typeof activation === 'string') return activation;
  throw configError(config, 'hidden_act', 'is not supported');
}

const names = {
  patches: { hub: 'embeddings.patch_embedding', gguf: 'v.patch_embd' },
  positions: { hub: 'embeddings.position_embedding', gguf: 'v.position_embd' },
  classToken: { hub: 'embeddings.class_embedding', gguf: 'v.class_embd' },
  // The hub's own spelling.
  preNorm: { hub: 'pre_layrnorm', gguf: 'v.pre_ln' },
  postNorm: { hub: 'post_layernorm', gguf: 'v.post_ln' },
  norm1: { hub: 'encoder.layers.*.layer_norm1', gguf: 'v.blk.*.ln1' },
  norm2: { hub: 'encoder.layers.*.layer_norm2', gguf: 'v.blk.*.ln2' },
  query: { hub: 'encoder.layers.*.self_attn.q_proj', gguf: 'v.blk.*.attn_q' },
  key: { hub: 'encoder.layers.*.self_attn.k_proj', gguf: 'v.blk.*.attn_k' },
  value: { hub: 'encoder.layers.*.self_attn.v_proj', gguf: 'v.blk.*.attn_v' },
  output: { hub: 'encoder.layers.*.self_attn.out_proj', gguf: 'v.blk.*.attn_out' },
  up: { hub: 'encoder.layers.*.mlp.fc1', gguf: 'v.blk.*.ffn_up' },
  down: { hub: 'encoder.layers.*.mlp.fc2', gguf: 'v.blk.*.ffn_down' },
};

function clipLayer(
  builder: VisionBuilder,
  sizes: TowerSizes,
  activation: TowerActivation,
  layer: number,
): TowerLayerStep {
  const at = (name: keyof typeof names) => builder.name(names[name], layer);
  const norm = (name: 'norm1' | 'norm2') => builder.layerNorm(at(name), sizes.hiddenSize);
  return towerLayer(sizes, {
    linear: (role, rows, columns) => builder.linear(at(role), rows, columns),
    inputs: [norm('norm1'), norm('norm2')],
    activation,
  });
}

/** Two maps with a GELU between, the first of them to as many values as its file has rows. */
export function twoLayerProjector(
  { projector }: Pick<Tower, 'projector'>,
  inputs: number,
  [first, second]: readonly [TowerName, TowerName] = [
    { hub: 'linear_1', gguf: 'mm.1' },
    { hub: 'linear_2', gguf: 'mm.2' },
  ],
): TowerStep[] {
  const { hiddenSize, weights } = projector.source;
  const name = projector.name(first);
  const inner = weights.tensors.get(`${name}.weight`)?.shape[0] ?? hiddenSize;
  return [
    { kind: 'linear', linear: projector.linear(name, inner, inputs) },
    { kind: 'activation', activation: 'gelu' },
    { kind: 'linear', linear: projector.linear(projector.name(second), hiddenSize, inner) },
  ];
}

/** Negative numbers count from the last layer, whose output is -1. */
export function layersTaken({ outer }: VisionSource, layerCount: number): number {
  const taken = fieldOf(outer, 'vision_feature_layer') ?? -1;
  const layers = typeof taken === 'number' && taken < 0 ? layerCount + 1 + taken : taken;
  if (typeof layers === 'number' && Number.isInteger(layers) && layers > 0 && layers <= layerCount)
    return layers;
  throw configError(outer, 'vision_feature_layer', `must be one of the ${layerCount} layers`);
}

/** `model_type` of the tower within a model. */
export function towerKind({ outer }: VisionSource): unknown {
  const vision = fieldOf(outer, 'vision_config');
  return isRecord(vision) ? vision.model_type : undefined;
}
