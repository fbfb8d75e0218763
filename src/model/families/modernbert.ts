// ModernBERT: norms before branches, rotary positions, a gated feed-forward, and local layers between those that see the
// whole text. What the first layer reads is normalized already.

import { optionalFlag, optionalSize } from '../config.ts';
import { activationOf, biasesOf, bidirectionalWindowOf, slidingLayers } from '../layer-config.ts';
import { branch } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import type { RoleNames } from '../tensor-names.ts';

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
  build(source) {
    const { config, sizes } = source;
    const norms = { kind: 'layer', bias: optionalFlag(config, 'norm_bias') ?? false } as const;
    const model = new ModelBuilder(source, { names: { hub: names }, norms });
    const rope = model.rope(ropeOf(config, sizes, 'full_attention'));
    const localRope = model.rope(localRopeOf(config, sizes, 10_000));
    const period = optionalSize(config, 'sliding_window_pattern') ?? 3;
    const slides = slidingLayers(source, (index) => index % period !== 0);
    const window = bidirectionalWindowOf(config);
    const activation = activationOf(config, 'gelu', 'hidden_activation');
    const biases = biasesOf(config);
    return model.spec({
      embeddingNorm: true,
      layers(layer) {
        const attending = attention(layer, {
          ...(slides[layer.index] ? { rope: localRope, window } : { rope }),
          bidirectional: true,
          fused: true,
          ...biases.attention,
        });
        const feeding = mlp(layer, { activation, fused: true, ...biases.mlp });
        const input = layer.index === 0 ? undefined : layer.norm('attentionNorm');
        return {
          branches: [branch(attending, { input }), branch(feeding, { input: layer.norm('ffnNorm') })],
        };
      },
    });
  },
};
