// StableLM: layer norms and heads that are rotated in part; the larger ones have a norm for each head of q and k, and
// branches that read the same rows.

import { optionalFlag } from '../config.ts';
import { activationOf } from '../layer-config.ts';
import { parallel, preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';

const names = {
  hub: {
    queryNorm: 'self_attn.q_layernorm.norms.*',
    keyNorm: 'self_attn.k_layernorm.norms.*',
  },
};

export const stablelm: Architecture = {
  name: 'stablelm',
  modelTypes: ['stablelm'],
  ggufNames: ['stablelm'],
  defaults: { max_position_embeddings: 4096, layer_norm_eps: 1e-5, partial_rotary_factor: 0.25 },
  build(source) {
    const { config, sizes } = source;
    const flag = (hub: string, gguf: string): boolean =>
      optionalFlag(config, hub) ?? optionalFlag(config, gguf) ?? false;
    const model = new ModelBuilder(source, { names, norms: { kind: 'layer', bias: true } });
    const rope = model.rope(ropeOf(config, sizes));
    const queryKeyNorm = flag('qk_layernorm', 'use_qk_norm') ? 'each' : undefined;
    const activation = activationOf(config);
    const shape = optionalFlag(config, 'use_parallel_residual') ? parallel : preNorm;
    const queryKeyValueBias = flag('use_qkv_bias', 'attention_bias');
    return model.spec({
      layers: (layer) =>
        shape(layer, attention(layer, { rope, queryKeyNorm, queryKeyValueBias }), mlp(layer, { activation })),
    });
  },
};
