// Qwen 3 Next and Qwen 3.5, dense and with experts: three of four layers are gated delta nets, the others attentions whose
// output is gated.

import { configError, optionalFlag, optionalSize, size } from '../config.ts';
import type { LayerBuilder } from '../layer-builder.ts';
import { activationOf, attentionLayers } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { type GatedDeltaNetOptions, gatedDeltaNet } from '../layers/gated-delta-net.ts';
import { type MoeOptions, mlpOrMoe } from '../layers/moe.ts';
import { hasMlxLayout, withRaisedNorms } from '../mlx-layout.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions, withSharedExpert } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';

const defaults = {
  head_dim: 256,
  rms_norm_eps: 1e-6,
  partial_rotary_factor: 0.25,
  linear_conv_kernel_dim: 4,
  linear_key_head_dim: 128,
  linear_value_head_dim: 128,
  full_attention_interval: 4,
  max_position_embeddings: 32_768,
} as const;

const expertDefaults = {
  num_key_value_heads: 2,
  moe_intermediate_size: 512,
  shared_expert_intermediate_size: 512,
  norm_topk_prob: true,
} as const;

/** Where rotary positions are in three parts, for images. */
const interleavedAxes = { mrope_interleaved: true };

export const qwen3Next: Architecture = {
  name: 'qwen3next',
  modelTypes: ['qwen3_next'],
  ggufNames: ['qwen3next'],
  defaults: { ...defaults, ...expertDefaults, num_experts_per_tok: 10 },
  build: (source) => build(source, { isNext: true, isMoe: true }),
};

export const qwen35: Architecture = {
  name: 'qwen3.5',
  modelTypes: ['qwen3_5', 'qwen3_5_text'],
  ggufNames: ['qwen35'],
  ggufDefaults: interleavedAxes,
  defaults: { ...defaults, num_key_value_heads: 4 },
  build: (source) => build(source, {}),
};

export const qwen35Moe: Architecture = {
  name: 'qwen3.5moe',
  modelTypes: ['qwen3_5_moe', 'qwen3_5_moe_text'],
  ggufNames: ['qwen35moe'],
  ggufDefaults: interleavedAxes,
  defaults: { ...defaults, ...expertDefaults, num_experts_per_tok: 8 },
  build: (source) => build(source, { isMoe: true }),
};

function build(
  source: ModelSource,
  { isNext = false, isMoe = false }: { readonly isNext?: boolean; readonly isMoe?: boolean },
): ModelSpec {
  const { config, sizes, naming, opened } = source;
  const bias = optionalFlag(config, 'attention_bias') ?? false;
  const interval = optionalSize(config, 'full_attention_interval') ?? 4;
  const table = ropeOf(config, sizes);
  const attends = attentionLayers(source, (index) => (index + 1) % interval === 0);
  const activation = activationOf(config);
  const isMlx = naming !== 'gguf' && hasMlxLayout(opened, 'linear_attn.conv1d.weight');
  const model = new ModelBuilder(source, {
    names: { gguf: { ffnNorm: 'post_attention_norm' } },
    // GGUF files store norm weights with 1 already added, as do folders converted by mlx-lm.
    norms: { offset: naming === 'gguf' || isMlx ? 0 : 1 },
  });
  const rope = model.rope(table);
  const delta = deltaOptions(source, isNext);
  const moe = isMoe && hasExperts(config) ? expertsOf(source) : undefined;
  const attending = {
    rope,
    gated: true,
    queryKeyNorm: 'head',
    queryKeyValueBias: bias,
    outputBias: bias,
  } as const;
  const feedForward = (layer: LayerBuilder) => mlpOrMoe(layer, { activation }, moe);
  const mtpLayer = (layer: LayerBuilder) =>
    preNorm(layer, attention(layer, { ...attending, skipsFirst: true }), feedForward(layer));
  const spec = model.spec({
    layers: (layer) =>
      preNorm(
        layer,
        attends[layer.index] ? attention(layer, attending) : gatedDeltaNet(layer, delta),
        feedForward(layer),
      ),
    mtpLayer,
  });
  return isMlx && spec.mtp ? { ...spec, mtp: withRaisedNorms(spec.mtp, opened.weights) } : spec;
}

function deltaOptions({ config, naming }: ModelSource, isNext: boolean): GatedDeltaNetOptions {
  const isGguf = naming === 'gguf';
  const valueHeads = size(config, 'linear_num_value_heads');
  const keyHeads = size(config, 'linear_num_key_heads');
  if (valueHeads % keyHeads !== 0) {
    throw configError(
      config,
      'linear_num_value_heads',
      `${valueHeads} value heads cannot share ${keyHeads} key heads evenly`,
    );
  }
  const valueSize =
    optionalSize(config, 'linear_value_head_dim') ?? size(config, 'linear_inner_size') / valueHeads;
  return {
    keyHeads,
    keySize: size(config, 'linear_key_head_dim'),
    valueHeads,
    valueSize,
    length: size(config, 'linear_conv_kernel_dim'),
    // The tool that makes GGUF files of Qwen 3.5 sorts value heads anew.
    sharing: isGguf && !isNext ? 'strided' : 'neighbours',
    largeByKeyHead: isNext && !isGguf,
    smallByKeyHead: isNext,
    logarithmicRates: !isGguf,
  };
}

function expertsOf(source: ModelSource): MoeOptions {
  const moe = moeOptions(source);
  return withSharedExpert(source, moe, moe.size);
}
