// Hunyuan (dense): norms over heads of q and k behind the rotation, whose base grows with a factor.

import { type Architecture, activationOf, alikeLayers, biasesOf } from '../architecture.ts';
import { ropeOf } from '../rope-parameters.ts';

export const hunyuan: Architecture = {
  name: 'hunyuan-dense',
  modelTypes: ['hunyuan_v1_dense'],
  ggufNames: ['hunyuan-dense'],
  defaults: { max_position_embeddings: 2048, rms_norm_eps: 1e-5 },
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyNorm: 'head',
      normsAfterRope: true,
      ...biasesOf(config),
      names: {
        'hugging-face': { queryNorm: 'self_attn.query_layernorm', keyNorm: 'self_attn.key_layernorm' },
      },
    };
  },
};
