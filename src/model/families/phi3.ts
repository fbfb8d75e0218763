// Phi 3 and 4-mini: Llama's shape with q, k, v in one tensor, gate and up in another, and longrope.

import { type Architecture, activationOf, alikeLayers, windowOf } from '../architecture.ts';
import { ropeOf } from '../rope-parameters.ts';

export const phi3: Architecture = {
  name: 'phi3',
  modelTypes: ['phi3'],
  ggufNames: ['phi3'],
  defaults: { rms_norm_eps: 1e-5, max_position_embeddings: 4096, original_max_position_embeddings: 4096 },
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes, windowOf(config)),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      fusedQueryKeyValue: true,
      fusedGateUp: true,
    };
  },
};
