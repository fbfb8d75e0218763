// OLMo 2 and 3: norms after each branch instead of before it, and over all heads of q and k together; OLMo 3 has windows
// over most layers, and its GGUF files say "olmo2".

import { fieldOf } from '../config.ts';
import { activationOf, biasesOf, periodicSlidingLayers, windowOf } from '../layer-config.ts';
import { postNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, type FamilySpec, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import { sandwichNorms } from '../tensor-names.ts';

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

function build(source: ModelSource): FamilySpec {
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
