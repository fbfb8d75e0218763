// ModernBERT: norms before branches, rotary positions, a gated feed-forward, and local layers between those that see the
// whole text. What the first layer reads is normalized already.

import { type Architecture, activationOf, biasesOf, slidingLayers } from '../architecture.ts';
import { optionalFlag, optionalSize } from '../config.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import type { RoleNames } from '../tensor-names.ts';
import { windowOnBothSides } from './both-sides.ts';

const GLOBAL = 0;
const LOCAL = 1;

const names: RoleNames = {
  embedding: 'embeddings.tok_embeddings',
  embeddingNorm: 'embeddings.norm',
  attentionNorm: 'attn_norm',
  queryKeyValue: 'attn.Wqkv',
  output: 'attn.Wo',
  ffnNorm: 'mlp_norm',
  gateUp: 'mlp.Wi',
  down: 'mlp.Wo',
  finalNorm: 'final_norm',
};

export const modernbert: Architecture = {
  name: 'modernbert',
  modelTypes: ['modernbert'],
  ggufNames: ['modern-bert'],
  defaults: {
    vocab_size: 50_368,
    max_position_embeddings: 8192,
    norm_eps: 1e-5,
    rope_theta: 160_000,
    sliding_window: 128,
  },
  ggufDefaults: { rope_theta: 160_000, sliding_window: 128 },
  otherNames: {
    rope_theta: ['global_rope_theta'],
    rope_local_base_freq: ['local_rope_theta'],
    sliding_window: ['local_attention'],
    sliding_window_pattern: ['global_attn_every_n_layers'],
  },
  traits(source) {
    const { config, sizes } = source;
    const period = optionalSize(config, 'sliding_window_pattern') ?? 3;
    const slides = slidingLayers(source, (index) => index % period !== 0);
    const window = windowOnBothSides(config);
    return {
      bidirectional: true,
      ropes: [ropeOf(config, sizes, 'full_attention'), localRopeOf(config, sizes, 10_000)],
      layers: slides.map((local, index) => ({
        ...(local ? { rope: LOCAL, window } : { rope: GLOBAL }),
        unnormed: index === 0,
      })),
      activation: activationOf(config, 'hidden_activation', 'gelu'),
      attentionScale: sizes.headSize ** -0.5,
      norm: 'layer',
      normBias: optionalFlag(config, 'norm_bias') ?? false,
      embeddingNorm: true,
      fusedQueryKeyValue: true,
      fusedGateUp: true,
      ...biasesOf(config),
      names: { 'hugging-face': names },
    };
  },
};
