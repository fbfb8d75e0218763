// Command-R, Aya and their successors: attention and feed-forward read the same rows, after one layer norm without a
// bias. In the second generation layers without a window are NoPE.

import { optionalFlag, optionalPositive } from '../config.ts';
import { activationOf, biasesOf, periodicSlidingLayers, windowOf } from '../layer-config.ts';
import { parallel } from '../layer-shapes.ts';
import { type AttentionOptions, attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';

const defaults = {
  max_position_embeddings: 8192,
  layer_norm_eps: 1e-5,
  logit_scale: 0.0625,
  tie_word_embeddings: true,
};

export const cohere: Architecture = {
  name: 'command-r',
  modelTypes: ['cohere'],
  ggufNames: ['command-r'],
  defaults: { ...defaults, rope_theta: 500_000 },
  build(source) {
    const queryKeyNorm = optionalFlag(source.config, 'use_qk_norm') ? 'each' : undefined;
    return build(source, (rope) => ({ rope, queryKeyNorm }));
  },
};

export const cohere2: Architecture = {
  name: 'cohere2',
  modelTypes: ['cohere2'],
  ggufNames: ['cohere2'],
  defaults: { ...defaults, sliding_window: 4096 },
  build(source) {
    const window = windowOf(source.config);
    const slides = periodicSlidingLayers(source, 4);
    return build(source, (rope, index) => (slides[index] ? { rope, window } : {}));
  },
};

function build(
  source: ModelSource,
  attentionOf: (rope: number, index: number) => AttentionOptions,
): ModelSpec {
  const { config, sizes } = source;
  const model = new ModelBuilder(source, { norms: { kind: 'layer' } });
  const rope = model.rope(ropeOf(config, sizes));
  const activation = activationOf(config);
  const biases = biasesOf(config);
  return model.spec({
    layers: (layer) =>
      parallel(
        layer,
        attention(layer, { ...attentionOf(rope, layer.index), interleaved: true, ...biases.attention }),
        mlp(layer, { activation, ...biases.mlp }),
      ),
    logitScale: optionalPositive(config, 'logit_scale'),
  });
}
