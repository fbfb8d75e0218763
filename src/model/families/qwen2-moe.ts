// Qwen 1.5 and 2 with experts: Qwen 2's attention, and beside the experts a feed-forward for every row with a share of
// its own.

import {
  type Architecture,
  activationOf,
  type LayerTraits,
  type ModelSource,
  slidingLayers,
  windowOf,
} from '../architecture.ts';
import { optionalCount, optionalFlag } from '../config.ts';
import { expertTraits, mixtureOf, withSharedExpert } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';

export const qwen2Moe: Architecture = {
  name: 'qwen2moe',
  modelTypes: ['qwen2_moe'],
  ggufNames: ['qwen2moe'],
  defaults: {
    num_key_value_heads: 16,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
    num_experts: 60,
    num_experts_per_tok: 4,
    moe_intermediate_size: 1408,
    shared_expert_intermediate_size: 5632,
    qkv_bias: true,
  },
  traits(source) {
    const { config, sizes } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      ...mixtureOf(source, layersOf(source), () => expertsOf(source)),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyValueBias: optionalFlag(config, 'qkv_bias') ?? optionalFlag(config, 'attention_bias') ?? false,
    };
  },
};

function expertsOf(source: ModelSource) {
  const experts = expertTraits(source, { score: 'softmax', normalized: false });
  return withSharedExpert(source, experts, source.sizes.ffnSize);
}

/** Every other one of the lower layers has a window, where `use_sliding_window` says so. */
function layersOf(source: ModelSource): LayerTraits[] {
  const { config } = source;
  const window = optionalFlag(config, 'use_sliding_window') === true ? windowOf(config) : undefined;
  const end = optionalCount(config, 'max_window_layers') ?? 0;
  const sliding = slidingLayers(source, (index) => index % 2 === 0 && index < end);
  return sliding.map((slides) => ({ rope: 0, window: slides ? window : undefined }));
}
