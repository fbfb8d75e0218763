// Hunyuan (dense): norms over heads of q and k after the rotation, whose base grows with a factor.

import { biasesOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import { llamaLike } from './llama.ts';

export const hunyuan: Architecture = {
  name: 'hunyuan-dense',
  modelTypes: ['hunyuan_v1_dense'],
  ggufNames: ['hunyuan-dense'],
  defaults: { max_position_embeddings: 2048, rms_norm_eps: 1e-5 },
  build(source) {
    const biases = biasesOf(source.config);
    return llamaLike(source, {
      names: { hub: { queryNorm: 'self_attn.query_layernorm', keyNorm: 'self_attn.key_layernorm' } },
      attention: (rope) => ({ rope, queryKeyNorm: 'head', normsAfterRope: true, ...biases.attention }),
      mlp: biases.mlp,
    });
  },
};
