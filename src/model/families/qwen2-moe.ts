// Qwen 1.5 and 2 with experts: Qwen 2's attention, and beside the experts a feed-forward for every row with a share of
// its own.

import { optionalCount, optionalFlag } from '../config.ts';
import { activationOf, slidingLayers, usedWindowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions, withSharedExpert } from '../moe-config.ts';
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
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source);
    const rope = model.rope(ropeOf(config, sizes));
    const windows = lowerWindows(source);
    const moe = hasExperts(config) ? expertsOf(source) : undefined;
    const activation = activationOf(config);
    const queryKeyValueBias =
      optionalFlag(config, 'qkv_bias') ?? optionalFlag(config, 'attention_bias') ?? false;
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, window: windows[layer.index], queryKeyValueBias }),
          mlpOrMoe(layer, { activation }, moe),
        ),
    });
  },
};

function expertsOf(source: ModelSource) {
  const moe = moeOptions(source, { score: 'softmax', normalized: false });
  return withSharedExpert(source, moe, source.sizes.ffnSize);
}

/** Every other one of the lower layers has a window, where `use_sliding_window` says so. */
function lowerWindows(source: ModelSource): readonly (number | undefined)[] {
  const { config } = source;
  const window = usedWindowOf(config);
  const end = optionalCount(config, 'max_window_layers') ?? 0;
  const slides = slidingLayers(source, (index) => index % 2 === 0 && index < end);
  return slides.map((one) => (one ? window : undefined));
}
