// Llama 4 (text): layers that see chunks of the text between layers that see all of it but no positions, experts that
// are scaled at their input.

import {
  type Architecture,
  activationOf,
  biasesOf,
  type LayerTraits,
  type ModelSource,
  rotatedLayers,
  slidingLayers,
} from '../architecture.ts';
import { fieldOf, optionalFlag, optionalPositive, optionalSize } from '../config.ts';
import { expertTraits, mixtureOf } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { AttentionSpec } from '../spec.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';

const names: FamilyNames = {
  'hugging-face': {
    gate: 'feed_forward.gate_proj',
    up: 'feed_forward.up_proj',
    down: 'feed_forward.down_proj',
    router: 'feed_forward.router',
    expertGateUps: { weight: 'feed_forward.experts.gate_up_proj', bias: '' },
    expertDowns: { weight: 'feed_forward.experts.down_proj', bias: '' },
    sharedGate: 'feed_forward.shared_expert.gate_proj',
    sharedUp: 'feed_forward.shared_expert.up_proj',
    sharedDown: 'feed_forward.shared_expert.down_proj',
  },
  mlx: switchNames('feed_forward.experts'),
};

const attention = {
  attention_chunk_size: 8192,
  attn_temperature_tuning: true,
  floor_scale: 8192,
  attn_scale: 0.1,
};

export const llama4: Architecture = {
  name: 'llama4',
  modelTypes: ['llama4_text', 'llama4'],
  ggufNames: ['llama4'],
  defaults: {
    ...attention,
    num_attention_heads: 40,
    num_key_value_heads: 8,
    head_dim: 128,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 500_000,
    intermediate_size: 8192,
    intermediate_size_mlp: 16_384,
    num_local_experts: 16,
    num_experts_per_tok: 1,
    use_qk_norm: true,
  },
  ggufDefaults: attention,
  traits(source) {
    const { config, sizes, naming } = source;
    const layers = layersOf(source);
    const experts = () => {
      const traits = expertTraits(source, { score: 'sigmoid', normalized: false });
      const shared = { size: traits.size, gated: false };
      return { ...traits, scalesInput: true, transposed: naming !== 'gguf', shared };
    };
    return {
      ropes: [ropeOf(config, sizes)],
      ...mixtureOf(source, layers, experts),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      normsAfterRope: true,
      ...biasesOf(config),
      interleavedPairs: true,
      names,
    };
  },
};

function layersOf(source: ModelSource): LayerTraits[] {
  const { config, opened } = source;
  // GGUF files of models without chunks give a window of 0; positions are told everywhere there.
  const plain = opened.format === 'gguf' && config.fields.sliding_window === null;
  const rotated = rotatedLayers(source, 4);
  const chunked = slidingLayers(source, (index) => rotated[index] === true, 'chunked_attention');
  const chunk = optionalSize(config, 'attention_chunk_size');
  const ffnSize = optionalSize(config, 'intermediate_size_mlp');
  const queryKeyNorm = normsHeads(source) ? 'unscaled' : undefined;
  const growth = growthOf(source);
  return rotated.map((turns, index) => {
    if (plain) return { ffnSize, rope: 0, queryKeyNorm };
    const seen = { ffnSize, chunk: chunked[index] ? chunk : undefined };
    return turns ? { ...seen, rope: 0, queryKeyNorm } : { ...seen, growth };
  });
}

/** GGUF files do not say it: heads are normalized but in the model of 128 experts. */
function normsHeads({ config, opened }: ModelSource): boolean {
  return opened.format === 'gguf'
    ? fieldOf(config, 'num_experts') !== 128
    : optionalFlag(config, 'use_qk_norm') === true;
}

function growthOf({ config }: ModelSource): AttentionSpec['growth'] {
  const tuned = fieldOf(config, 'attn_temperature_tuning') ?? false;
  const weight = optionalPositive(config, 'attn_scale');
  const length = optionalSize(config, 'floor_scale');
  if (tuned === false || weight === undefined || length === undefined) return undefined;
  return { weight, length, shift: 1 };
}
