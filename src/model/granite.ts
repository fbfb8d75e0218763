// Granite 3: Llama's shape with factors on embeddings, attention, branches and logits; also with experts.

import {
  type Architecture,
  activationOf,
  alikeLayers,
  biasesOf,
  type ModelSource,
  type Traits,
} from './architecture.ts';
import { optionalPositive } from './config.ts';
import { expertTraits, withExperts } from './expert-traits.ts';
import { ropeOf } from './rope-parameters.ts';
import type { RoleNames } from './tensor-names.ts';

const defaults = { rms_norm_eps: 1e-6, max_position_embeddings: 2048 };

export const granite: Architecture = {
  name: 'granite',
  modelTypes: ['granite'],
  ggufNames: ['granite'],
  defaults: { ...defaults, attention_multiplier: 1 },
  traits: graniteTraits,
};

const expertNames: RoleNames = {
  router: 'block_sparse_moe.router.layer',
  expertGateUps: 'block_sparse_moe.input_linear',
  expertDowns: 'block_sparse_moe.output_linear',
};

export const graniteMoe: Architecture = {
  name: 'granitemoe',
  modelTypes: ['granitemoe'],
  ggufNames: ['granitemoe'],
  defaults: { ...defaults, attention_multiplier: 1, num_local_experts: 8, num_experts_per_tok: 2 },
  traits(source) {
    const traits = graniteTraits(source);
    return {
      ...traits,
      layers: withExperts(source, traits.layers),
      experts: expertTraits(source, { score: 'softmax', normalized: true }),
      names: { 'hugging-face': expertNames },
    };
  },
};

function graniteTraits({ config, sizes, naming }: ModelSource): Traits {
  return {
    ropes: [ropeOf(config, sizes)],
    layers: alikeLayers(sizes),
    activation: activationOf(config, 'hidden_act', 'silu'),
    attentionScale: optionalPositive(config, 'attention_multiplier') ?? sizes.headSize ** -0.5,
    embeddingScale: optionalPositive(config, 'embedding_multiplier'),
    residualScale: optionalPositive(config, 'residual_multiplier'),
    logitScale: 1 / (optionalPositive(config, 'logits_scaling') ?? 1),
    ...biasesOf(config),
    interleavedPairs: naming === 'gguf',
  };
}
