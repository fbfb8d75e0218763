// OLMo 2 and 3: norms after each branch instead of before it, and over all heads of q and k together; OLMo 3 has windows
// over most layers, and its GGUF files say "olmo2".

import {
  type Architecture,
  activationOf,
  alikeLayers,
  biasesOf,
  type ModelSource,
  mixedLayers,
  type Traits,
  windowOf,
} from '../architecture.ts';
import { fieldOf } from '../config.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import { sandwichNorms } from '../tensor-names.ts';

const GLOBAL = 0;
const LOCAL = 1;

const defaults = { rms_norm_eps: 1e-5, max_position_embeddings: 2048 };

export const olmo2: Architecture = {
  name: 'olmo2',
  modelTypes: ['olmo2'],
  ggufNames: ['olmo2'],
  defaults,
  traits: olmoTraits,
};

export const olmo3: Architecture = {
  name: 'olmo3',
  modelTypes: ['olmo3'],
  ggufNames: [],
  defaults: { ...defaults, rope_theta: 500_000, sliding_window: 4096 },
  traits: olmoTraits,
};

function olmoTraits(source: ModelSource): Traits {
  const { config, sizes } = source;
  const window = windowOf(config);
  return {
    // Only layers that see all tokens are stretched.
    ropes: [
      ropeOf(config, sizes, 'full_attention'),
      localRopeOf(config, sizes, fieldOf(config, 'rope_theta')),
    ],
    layers:
      window === undefined
        ? alikeLayers(sizes)
        : mixedLayers(source, 4, { sliding: { rope: LOCAL, window }, full: { rope: GLOBAL } }),
    activation: activationOf(config, 'hidden_act', 'silu'),
    attentionScale: sizes.headSize ** -0.5,
    queryKeyNorm: 'all',
    norms: 'after',
    ...biasesOf(config),
    names: { 'hugging-face': sandwichNorms },
  };
}
