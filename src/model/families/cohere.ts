// Command-R, Aya and their successors: attention and feed-forward read the same rows, behind one layer norm without a
// bias. In the second generation only layers with a window are told positions.

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
import { optionalFlag, optionalPositive } from '../config.ts';
import { ropeOf } from '../rope-parameters.ts';

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
  traits(source) {
    const norms = optionalFlag(source.config, 'use_qk_norm') ?? false;
    return {
      ...cohereTraits(source),
      layers: alikeLayers(source.sizes),
      ...(norms ? { queryKeyNorm: 'each' } : {}),
    };
  },
};

export const cohere2: Architecture = {
  name: 'cohere2',
  modelTypes: ['cohere2'],
  ggufNames: ['cohere2'],
  defaults: { ...defaults, sliding_window: 4096 },
  traits(source) {
    const { config } = source;
    const sliding = { rope: 0, window: windowOf(config) };
    return {
      ...cohereTraits(source),
      layers: mixedLayers(source, 4, { sliding, full: {} }),
    };
  },
};

function cohereTraits({ config, sizes }: ModelSource): Omit<Traits, 'layers'> {
  return {
    ropes: [ropeOf(config, sizes)],
    activation: activationOf(config, 'hidden_act', 'silu'),
    attentionScale: sizes.headSize ** -0.5,
    logitScale: optionalPositive(config, 'logit_scale'),
    norm: 'layer',
    parallel: true,
    ...biasesOf(config),
    interleavedPairs: true,
  };
}
