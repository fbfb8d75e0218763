// Qwen 2 and 2.5: Llama's shape with biases on q, k and v, and windows over the upper layers where asked for. With experts there is
// a shared expert with a gate, too, and windows are over lower layers.

import { optionalCount, optionalFlag } from '../config.ts';
import { slidingLayers, usedWindowOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions, withSharedExpert } from '../moe-config.ts';
import type { ModelSpec } from '../spec.ts';
import { type LlamaOptions, llamaLike } from './llama.ts';

export const qwen2: Architecture = {
  name: 'qwen2',
  // Models that see images, too, are these with rotary positions in three parts.
  modelTypes: ['qwen2', 'qwen2_5_vl', 'qwen2_5_vl_text'],
  ggufNames: ['qwen2', 'qwen2vl'],
  defaults: {
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
  },
  build: (source) => build(source),
};

/** Xiaomi's MiMo 7B: the same with an MTP head. */
export const mimo: Architecture = {
  ...qwen2,
  name: 'mimo',
  modelTypes: ['mimo'],
  ggufNames: [],
  build: (source) => build(source, { names: { hub: { mtpLayer: 'mtp_layers.0.' } }, mtpPlace: 'mimo' }),
};

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
    const { config } = source;
    const windows = lowerWindows(source);
    const queryKeyValueBias =
      optionalFlag(config, 'qkv_bias') ?? optionalFlag(config, 'attention_bias') ?? false;
    return llamaLike(source, {
      attention: (rope, layer) => ({ rope, window: windows[layer], queryKeyValueBias }),
      moe: hasExperts(config) ? expertsOf(source) : undefined,
    });
  },
};

function build(source: ModelSource, head: Pick<LlamaOptions, 'names' | 'mtpPlace'> = {}): ModelSpec {
  const windows = upperWindows(source);
  return llamaLike(source, {
    ...head,
    attention: (rope, layer) => ({ rope, window: windows[layer], queryKeyValueBias: true }),
  });
}

/** Layers from `max_window_layers` on see a window, where `use_sliding_window` says so. */
export function upperWindows(source: ModelSource): readonly (number | undefined)[] {
  const { config } = source;
  const window = usedWindowOf(config);
  const first = optionalCount(config, 'max_window_layers') ?? Number.POSITIVE_INFINITY;
  return slidingLayers(source, (index) => index >= first).map((slides) => (slides ? window : undefined));
}

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
