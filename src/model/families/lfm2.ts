// LFM 2, dense and with experts: most layers are short convolutions, the others attention with norms over each head.

import {
  type Config,
  configError,
  fieldOf,
  optionalFlag,
  optionalPositive,
  optionalSize,
  size,
} from '../config.ts';
import { activationOf, attentionLayers } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { type MoeOptions, mlpOrMoe } from '../layers/moe.ts';
import { shortConv } from '../layers/short-conv.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';

const names: FamilyNames = {
  hub: {
    finalNorm: 'embedding_norm',
    attentionNorm: 'operator_norm',
    output: 'self_attn.out_proj',
    queryNorm: 'self_attn.q_layernorm',
    keyNorm: 'self_attn.k_layernorm',
    ffnNorm: 'ffn_norm',
    gate: 'feed_forward.w1',
    up: 'feed_forward.w3',
    down: 'feed_forward.w2',
    router: 'feed_forward.gate',
    routingBias: { bias: 'feed_forward.expert_bias' },
    expertGate: 'feed_forward.experts.*.w1',
    expertUp: 'feed_forward.experts.*.w3',
    expertDown: 'feed_forward.experts.*.w2',
  },
  // Dense layers of models with experts; models without keep the names of the hub.
  mlx: {
    ...switchNames('feed_forward.switch_mlp'),
    gate: 'feed_forward.gate_proj',
    up: 'feed_forward.up_proj',
    down: 'feed_forward.down_proj',
  },
  gguf: { finalNorm: 'token_embd_norm' },
};

const defaults = {
  num_key_value_heads: 8,
  max_position_embeddings: 128_000,
  rope_theta: 1_000_000,
  norm_eps: 1e-5,
  conv_L_cache: 3,
  block_multiple_of: 256,
  tie_word_embeddings: true,
} as const;

/** As the first files on the hub name them. */
const otherNames = {
  tie_word_embeddings: ['tie_embedding'],
  intermediate_size: ['block_ff_dim'],
  rope_theta: ['theta'],
};

export const lfm2: Architecture = {
  name: 'lfm2',
  modelTypes: ['lfm2'],
  ggufNames: ['lfm2'],
  defaults: { ...defaults, block_auto_adjust_ff_dim: true, block_ffn_dim_multiplier: 1 },
  otherNames,
  build: (source) => build(source, { ffnSize: adjustedSize(source) }),
};

export const lfm2Moe: Architecture = {
  name: 'lfm2moe',
  modelTypes: ['lfm2_moe'],
  ggufNames: ['lfm2moe'],
  defaults: {
    ...defaults,
    num_dense_layers: 2,
    moe_intermediate_size: 1792,
    num_experts_per_tok: 4,
    norm_topk_prob: true,
    use_expert_bias: true,
  },
  otherNames,
  build(source) {
    const moe = moeOptions(source, { score: 'sigmoid', normalized: true });
    const routingBias = optionalFlag(source.config, 'use_expert_bias') ?? true;
    return build(source, { moe: { ...moe, routingBias } });
  },
};

function build(
  source: ModelSource,
  { ffnSize, moe }: { readonly ffnSize?: number; readonly moe?: MoeOptions },
): ModelSpec {
  const { config, sizes } = source;
  const model = new ModelBuilder(source, { names });
  const rope = model.rope(ropeOf(config, sizes));
  const attends = attentionLayers(source, attendingLayers(config));
  const activation = activationOf(config);
  const length = size(config, 'conv_L_cache');
  const bias = optionalFlag(config, 'conv_bias') ?? false;
  return model.spec({
    layers: (layer) =>
      preNorm(
        layer,
        attends[layer.index]
          ? attention(layer, { rope, queryKeyNorm: 'head' })
          : shortConv(layer, { length, bias }),
        mlpOrMoe(layer, { activation, size: ffnSize }, moe),
      ),
  });
}

/** Older files list the layers that attend; where they do not, all do. */
function attendingLayers(config: Config): (index: number) => boolean {
  const listed = fieldOf(config, 'full_attn_idxs');
  if (listed === undefined) return () => true;
  if (Array.isArray(listed)) return (index) => listed.includes(index);
  throw configError(config, 'full_attn_idxs', 'must be a list of numbers of layers', 'Correct the field.');
}

/** Folders may give a size of which two thirds are meant, rounded up; GGUF files give the real one. */
function adjustedSize({ config, sizes, opened }: ModelSource): number {
  if (opened.format === 'gguf' || !isAdjusted(config)) return sizes.ffnSize;
  const factor = optionalPositive(config, 'block_ffn_dim_multiplier') ?? 1;
  const multiple = optionalSize(config, 'block_multiple_of') ?? 1;
  const meant = Math.trunc(factor * Math.trunc((2 * sizes.ffnSize) / 3));
  return multiple * Math.ceil(meant / multiple);
}

const isAdjusted = (config: Config): boolean => optionalFlag(config, 'block_auto_adjust_ff_dim') ?? false;
