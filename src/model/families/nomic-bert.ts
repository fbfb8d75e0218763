// Nomic's BERT: rotary positions in place of learnt ones, a gated feed-forward, q, k and v in one tensor. Folders on the hub
// name fields as GPT 2 does; transformers saves them under the usual names.

import { configError, fieldOf, optionalFlag } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { streamNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import type { Architecture } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { RoleNames } from '../tensor-names.ts';
import { bertBuilder, bertOptions } from './bert.ts';

const names: RoleNames = {
  embedding: 'embeddings.word_embeddings',
  embeddingNorm: 'emb_ln',
  layers: 'encoder.layers',
  queryKeyValue: 'attn.Wqkv',
  output: 'attn.out_proj',
  attentionPostNorm: 'norm1',
  gate: 'mlp.fc12',
  up: 'mlp.fc11',
  down: 'mlp.fc2',
  ffnPostNorm: 'norm2',
};

export const nomicBert: Architecture = {
  name: 'nomic-bert',
  modelTypes: ['nomic_bert'],
  ggufNames: ['nomic-bert'],
  defaults: {
    vocab_size: 30_528,
    max_position_embeddings: 2048,
    type_vocab_size: 2,
    layer_norm_eps: 1e-12,
    rope_theta: 1000,
  },
  ggufDefaults: { rope_theta: 1000 },
  otherNames: {
    hidden_size: ['n_embd'],
    num_hidden_layers: ['n_layer'],
    num_attention_heads: ['n_head'],
    intermediate_size: ['n_inner'],
    // Beyond those that it was trained for, a text would need another rotary base.
    max_position_embeddings: ['max_trained_positions', 'n_positions'],
    layer_norm_eps: ['layer_norm_epsilon'],
    rope_theta: ['rotary_emb_base'],
    partial_rotary_factor: ['rotary_emb_fraction'],
  },
  build(source) {
    const { config, sizes } = source;
    for (const [field, known] of [
      ['activation_function', 'swiglu'],
      ['prenorm', false],
      ['moe_every_n_layers', 0],
    ] as const) {
      const value = fieldOf(config, field) ?? known;
      if (value === known) continue;
      const problem = `${JSON.stringify(value)} is not supported`;
      throw configError(config, field, problem, `Use a model in which it is ${known}.`);
    }
    const bias = optionalFlag(config, 'qkv_proj_bias') ?? false;
    const model = bertBuilder(source, names);
    const rope = model.rope(ropeOf(config, sizes));
    const activation = activationOf(config);
    const ffnBias = optionalFlag(config, 'mlp_fc1_bias') ?? false;
    const interleaved = optionalFlag(config, 'rotary_emb_interleaved') ?? false;
    return model.spec({
      ...bertOptions(source),
      layers: (layer) =>
        streamNorm(
          layer,
          attention(layer, {
            rope,
            bidirectional: true,
            fused: true,
            interleaved,
            queryKeyValueBias: bias,
            outputBias: bias,
          }),
          mlp(layer, { activation, bias: ffnBias }),
        ),
    });
  },
};
