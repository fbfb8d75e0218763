// Gemma 4 (text): larger heads and a rotation of few pairs where all tokens are seen, normalized values, layers that share a
// KV cache, per-layer embeddings, and experts parallel to the feed-forward.

import { ModelFileError } from '../../weights/model-file-error.ts';
import { readFloats } from '../../weights/weight-source.ts';
import {
  type Config,
  configError,
  fieldOf,
  isRecord,
  nested,
  optionalCount,
  optionalFlag,
  optionalSize,
} from '../config.ts';
import type { LayerBuilder } from '../layer-builder.ts';
import { layerList, periodicSlidingLayers, sharedCaches, windowOf } from '../layer-config.ts';
import { branch } from '../layer-shapes.ts';
import { type AttentionOptions, attention } from '../layers/attention.ts';
import { type MlpOptions, mlp } from '../layers/mlp.ts';
import { type MoeOptions, moe } from '../layers/moe.ts';
import { perLayerInputPart, perLayerInputs } from '../layers/per-layer-inputs.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import type { BranchSpec } from '../spec.ts';
import { type FamilyNames, sandwichNorms, switchNames } from '../tensor-names.ts';
import { gemmaOptions } from './gemma2.ts';

const names: FamilyNames = {
  hub: {
    ...sandwichNorms,
    router: 'router.proj',
    expertGateUps: { weight: 'experts.gate_up_proj' },
    expertDowns: { weight: 'experts.down_proj' },
  },
  mlx: switchNames('experts.switch_glu'),
};

export const gemma4: Architecture = {
  name: 'gemma4',
  modelTypes: ['gemma4_text', 'gemma4'],
  ggufNames: ['gemma4'],
  defaults: {
    vocab_size: 262_144,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    global_head_dim: 512,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    sliding_window: 512,
    hidden_size_per_layer_input: 256,
    rope_parameters: {
      sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
      full_attention: { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1_000_000 },
    },
    tie_word_embeddings: true,
  },
  layerLists: ['intermediate_size', 'num_key_value_heads'],
  build(source) {
    const { config, sizes } = source;
    const { local, global } = headSizes(source);
    const attentionOf = attentionOptions(source);
    const ffnSizes = layerList(source, 'intermediate_size');
    const wide = optionalFlag(config, 'use_double_wide_mlp') ?? false;
    const mixes = optionalFlag(config, 'enable_moe_block') ?? hasExperts(config);
    const experts = mixes ? expertsOf(source) : undefined;
    const model = new ModelBuilder(source, { names });
    const { activation, softcap, ...outer } = gemmaOptions(source);
    const ropes = {
      full: model.rope(ropeOf(config, { ...sizes, headSize: global }, 'full_attention')),
      local: model.rope(localRopeOf(config, { ...sizes, headSize: local }, 10_000)),
    };
    // 0 stands for none.
    const inputSize = optionalCount(config, 'hidden_size_per_layer_input') || undefined;
    const rows = optionalSize(config, 'vocab_size_per_layer_input');
    return model.spec({
      ...outer,
      ...(inputSize === undefined
        ? {}
        : { perLayerInputs: perLayerInputs(model, { size: inputSize, rows }) }),
      layers(layer) {
        const options = attentionOf(layer.index, ropes);
        const isWide = wide && options.sharedCache !== undefined;
        const size = ffnSizes?.[layer.index] ?? (isWide ? 2 * sizes.ffnSize : undefined);
        const branches = [
          branch(attention(layer, { ...options, softcap }), {
            input: layer.norm('attentionNorm'),
            output: layer.norm('attentionPostNorm'),
          }),
          feedForward(layer, { activation, size }, experts),
        ];
        if (inputSize !== undefined)
          branches.push({ parts: [perLayerInputPart(layer, { size: inputSize, activation })] });
        const streamScale = layerScale(layer);
        const last = branches.pop() as BranchSpec;
        return { branches: [...branches, streamScale === 1 ? last : { ...last, streamScale }] };
      },
    });
  },
};

function headSizes({ config, sizes, opened }: ModelSource): {
  readonly local: number;
  readonly global: number;
} {
  if (opened.format === 'gguf')
    return { global: sizes.headSize, local: optionalSize(config, 'local_head_dim') ?? sizes.headSize };
  const global = listedHeadSize(config) ?? optionalSize(config, 'global_head_dim') ?? sizes.headSize;
  return { local: sizes.headSize, global };
}

/** Newer files list layers that differ from the others; those are the ones that see all tokens. */
function listedHeadSize(config: Config): number | undefined {
  const listed = fieldOf(config, 'per_layer_config');
  if (!isRecord(listed)) return undefined;
  const [first] = Object.values(listed).filter(isRecord);
  return first === undefined
    ? undefined
    : optionalSize(nested(config, 'per_layer_config', first), 'head_dim');
}

function attentionOptions(source: ModelSource) {
  const { config, naming, opened } = source;
  const isGguf = naming === 'gguf' && opened.format === 'gguf';
  const { local, global } = headSizes(source);
  const equal = optionalFlag(config, 'attention_k_eq_v') ?? false;
  const window = windowOf(config);
  // Larger models let tokens of an image see each other, where there is a window.
  const imagesBothWays = fieldOf(config, 'use_bidirectional_attention') === 'vision';
  const globalKvHeads = equal ? globalHeads(source) : undefined;
  const slides = periodicSlidingLayers(source, 6);
  // GGUF files list what differs between layers.
  const kvHeads = layerList(source, 'num_key_value_heads');
  const caches = sharedCaches(source, slides);
  return (index: number, ropes: { readonly full: number; readonly local: number }): AttentionOptions => ({
    ...(slides[index]
      ? { rope: ropes.local, window, imagesBothWays, headSize: local, kvHeadCount: kvHeads?.[index] }
      : {
          rope: ropes.full,
          headSize: global,
          kvHeadCount: kvHeads?.[index] ?? globalKvHeads,
          valuesAreKeys: isGguf ? 'unless-stored' : equal,
        }),
    scale: 1,
    queryKeyNorm: 'head',
    valueNorm: true,
    sharedCache: caches[index],
  });
}

function globalHeads({ config, sizes }: ModelSource): number | undefined {
  const heads = optionalSize(config, 'num_global_key_value_heads');
  if (heads === undefined || sizes.headCount % heads === 0) return heads;
  throw configError(
    config,
    'num_global_key_value_heads',
    `${sizes.headCount} heads cannot share ${heads} key/value heads evenly`,
  );
}

function expertsOf(source: ModelSource): MoeOptions {
  return {
    ...moeOptions(source),
    routerNorm: { factor: source.sizes.hiddenSize ** -0.5 },
    expertScales: true,
  };
}

const layerNames = {
  ffnOwnPostNorm: { hub: 'post_feedforward_layernorm_1', gguf: 'post_ffw_norm_1' },
  expertsNorm: { hub: 'pre_feedforward_layernorm_2', gguf: 'pre_ffw_norm_2' },
  expertsPostNorm: { hub: 'post_feedforward_layernorm_2', gguf: 'post_ffw_norm_2' },
  layerScale: { hub: { weight: 'layer_scalar' }, gguf: 'layer_output_scale' },
};

/** In layers with experts those are parallel to it, each with norms of its own. */
function feedForward(layer: LayerBuilder, dense: MlpOptions, experts: MoeOptions | undefined): BranchSpec {
  const leaves = layer.leaves(layerNames);
  const norm = (role: Parameters<typeof leaves.norm>[0]) => leaves.norm(role, layer.sizes.hiddenSize);
  const input = layer.norm('ffnNorm');
  const output = layer.norm('ffnPostNorm');
  const body = mlp(layer, dense);
  if (!experts?.isSparse(layer.index)) return branch(body, { input, output });
  return {
    parts: [
      { input, body, output: norm('ffnOwnPostNorm') },
      {
        input: norm('expertsNorm'),
        body: moe(layer, dense.activation, experts),
        output: norm('expertsPostNorm'),
      },
    ],
    output,
  };
}

/** The factor on the residual stream after a layer; 1 where the file holds none. */
function layerScale(layer: LayerBuilder): number {
  const { opened } = layer.shared.source;
  const name = layer.leaves(layerNames).names.weight('layerScale');
  const tensor = opened.weights.tensors.get(name);
  if (tensor === undefined) return 1;
  const [scale, ...others] = tensor.shape.every((size) => size === 1) ? readFloats(opened.weights, name) : [];
  if (scale !== undefined && others.length === 0 && Number.isFinite(scale)) return scale;
  throw new ModelFileError({
    file: opened.path,
    field: name,
    problem: `must hold one number, but has the shape [${tensor.shape.join(', ')}] or is none`,
    remedy: 'The file is damaged or was converted wrongly; download or convert it again.',
  });
}
