// EXAONE 4: norms after each branch and over heads of q and k; where some layers have a window, the others are not told
// positions.

import { type Architecture, activationOf, alikeLayers, slidingLayers, windowOf } from '../architecture.ts';
import { type Config, fieldOf, optionalSize } from '../config.ts';
import { ropeOf } from '../rope-parameters.ts';
import { sandwichNorms } from '../tensor-names.ts';

export const exaone4: Architecture = {
  name: 'exaone4',
  modelTypes: ['exaone4'],
  ggufNames: ['exaone4'],
  defaults: { max_position_embeddings: 2048, rms_norm_eps: 1e-5, sliding_window: 4096 },
  traits(source) {
    const { config, sizes } = source;
    const window = windowOf(config);
    const mixed = () =>
      slidingLayers(source, slidesBy(config)).map((slides) => (slides ? { rope: 0, window } : {}));
    return {
      ropes: [ropeOf(config, sizes)],
      layers: window === undefined ? alikeLayers(sizes) : mixed(),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyNorm: 'head',
      norms: 'after',
      names: { 'hugging-face': sandwichNorms },
    };
  },
};

/** A period, or letters that repeat: L for a layer with a window, G for one without. */
function slidesBy(config: Config): (index: number) => boolean {
  const pattern = fieldOf(config, 'sliding_window_pattern');
  if (typeof pattern === 'string') return (index) => pattern[index % pattern.length] === 'L';
  const period = optionalSize(config, 'sliding_window_pattern') ?? 4;
  return (index) => (index + 1) % period !== 0;
}
