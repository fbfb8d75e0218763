// Phi 3 and 4-mini: Llama's shape with q, k, v in one tensor, gate and up in another, and longrope.

import { windowOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import { llamaLike } from './llama.ts';

export const phi3: Architecture = {
  name: 'phi3',
  modelTypes: ['phi3'],
  ggufNames: ['phi3'],
  defaults: { rms_norm_eps: 1e-5, max_position_embeddings: 4096, original_max_position_embeddings: 4096 },
  build(source) {
    const window = windowOf(source.config);
    return llamaLike(source, { attention: (rope) => ({ rope, window, fused: true }), mlp: { fused: true } });
  },
};
