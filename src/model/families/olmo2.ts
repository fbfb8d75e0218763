// OLMo 2 and 3: norms after each branch instead of before it, and over all heads of q and k together; OLMo 3 has windows
// over most layers, and its GGUF files say "olmo2". OLMoE has experts, and norms before branches.

import { configError, fieldOf } from '../config.ts';
import { activationOf, biasesOf, periodicSlidingLayers, windowOf } from '../layer-config.ts';
import { postNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { moeOptions } from '../moe-config.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';
import { sandwichNorms } from '../tensor-names.ts';
import { llamaLike } from './llama.ts';

const defaults = { rms_norm_eps: 1e-5, max_position_embeddings: 2048 };

export const olmo2: Architecture = {
  name: 'olmo2',
  modelTypes: ['olmo2'],
  ggufNames: ['olmo2'],
  defaults,
  build,
};

export const olmo3: Architecture = {
  name: 'olmo3',
  modelTypes: ['olmo3'],
  ggufNames: [],
  defaults: { ...defaults, rope_theta: 500_000, sliding_window: 4096 },
  build,
};

export const olmoe: Architecture = {
  name: 'olmoe',
  modelTypes: ['olmoe'],
  ggufNames: ['olmoe'],
  defaults: { max_position_embeddings: 4096, rms_norm_eps: 1e-5, num_experts: 64, num_experts_per_tok: 8 },
  build(source) {
    const { config } = source;
    if (fieldOf(config, 'clip_qkv') !== undefined) {
      const problem = 'queries, keys and values that are clipped are not supported';
      throw configError(config, 'clip_qkv', problem, 'Use a model that does not clip them.');
    }
    const biases = biasesOf(config);
    return llamaLike(source, {
      attention: (rope) => ({ rope, queryKeyNorm: 'all', ...biases.attention }),
      mlp: biases.mlp,
      moe: moeOptions(source, { score: 'softmax', normalized: false }),
    });
  },
};

function build(source: ModelSource): ModelSpec {
  const { config, sizes } = source;
  const model = new ModelBuilder(source, { names: { hub: sandwichNorms } });
  const rope = model.rope(ropeOf(config, sizes, 'full_attention'));
  // Only layers that see all tokens are stretched.
  const localRope = model.rope(localRopeOf(config, sizes, fieldOf(config, 'rope_theta')));
  const window = windowOf(config);
  const slides = window === undefined ? [] : periodicSlidingLayers(source, 4);
  const activation = activationOf(config);
  const biases = biasesOf(config);
  return model.spec({
    layers: (layer) =>
      postNorm(
        layer,
        attention(layer, {
          ...(slides[layer.index] ? { rope: localRope, window } : { rope }),
          queryKeyNorm: 'all',
          ...biases.attention,
        }),
        mlp(layer, { activation, ...biases.mlp }),
      ),
  });
}
