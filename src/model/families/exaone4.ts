// EXAONE 4: norms after each branch and over heads of q and k; where some layers have a window, the others are NoPE.

import { type Config, fieldOf, optionalSize } from '../config.ts';
import { activationOf, slidingLayers, windowOf } from '../layer-config.ts';
import { postNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';
import { sandwichNorms } from '../tensor-names.ts';

export const exaone4: Architecture = {
  name: 'exaone4',
  modelTypes: ['exaone4'],
  ggufNames: ['exaone4'],
  defaults: { max_position_embeddings: 2048, rms_norm_eps: 1e-5, sliding_window: 4096 },
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source, { names: { hub: sandwichNorms } });
    const rope = model.rope(ropeOf(config, sizes));
    const window = windowOf(config);
    const slides = window === undefined ? undefined : slidingLayers(source, slidesBy(config));
    const activation = activationOf(config);
    return model.spec({
      layers: (layer) =>
        postNorm(
          layer,
          attention(layer, {
            ...(slides === undefined || slides[layer.index] ? { rope, window } : {}),
            queryKeyNorm: 'head',
          }),
          mlp(layer, { activation }),
        ),
    });
  },
};

/** A period, or letters that repeat: L for a layer with a window, G for one without. */
function slidesBy(config: Config): (index: number) => boolean {
  const pattern = fieldOf(config, 'sliding_window_pattern');
  if (typeof pattern === 'string') return (index) => pattern[index % pattern.length] === 'L';
  const period = optionalSize(config, 'sliding_window_pattern') ?? 4;
  return (index) => (index + 1) % period !== 0;
}
