// Llama and what shares its shape: SmolLM, TinyLlama, and Mistral and Mixtral in GGUF files.

import { configError } from '../config.ts';
import type { LayerBuilder, NormOptions } from '../layer-builder.ts';
import { activationOf, biasesOf, windowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { type AttentionOptions, attention } from '../layers/attention.ts';
import type { MlpOptions } from '../layers/mlp.ts';
import { type MoeOptions, mlpOrMoe } from '../layers/moe.ts';
import type { MtpPlace } from '../layers/mtp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';

export interface LlamaOptions {
  readonly names?: FamilyNames;
  readonly norms?: NormOptions;
  readonly attention: (rope: number, layer: number) => AttentionOptions;
  readonly mlp?: Partial<MlpOptions>;
  readonly moe?: MoeOptions | undefined;
  /** Where an MTP head of a layer of the same kind lies; absent where none is known for the family. */
  readonly mtpPlace?: MtpPlace;
  /** Of that head: default the model's. */
  readonly mtpMoe?: false;
}

/** Attention, then a feed-forward or experts, each after a norm; one rotary embedding. */
export function llamaLike(source: ModelSource, options: LlamaOptions): ModelSpec {
  const { config, sizes } = source;
  const model = new ModelBuilder(source, options);
  const rope = model.rope(ropeOf(config, sizes));
  const { activation = activationOf(config), ...dense } = options.mlp ?? {};
  const build = (layer: LayerBuilder, moe: MoeOptions | undefined, more?: Partial<AttentionOptions>) =>
    preNorm(
      layer,
      attention(layer, { ...options.attention(rope, layer.index), ...more }),
      mlpOrMoe(layer, { activation, ...dense }, moe),
    );
  const { moe, mtpMoe = moe, mtpPlace } = options;
  return model.spec({
    layers: (layer) => build(layer, moe),
    mtpLayer: mtpPlace && ((layer) => build(layer, mtpMoe || undefined, { skipsFirst: true })),
    mtpPlace,
  });
}

export const llama: Architecture = {
  name: 'llama',
  modelTypes: ['llama'],
  ggufNames: ['llama'],
  defaults: { rms_norm_eps: 1e-6, max_position_embeddings: 2048 },
  build(source) {
    const { config, naming, opened } = source;
    const interleaved = naming === 'gguf';
    if (interleaved) refusePartialRotation(source);
    // Only GGUF files call models with a window or experts "llama".
    const isGguf = opened.format === 'gguf';
    const window = isGguf ? windowOf(config) : undefined;
    const hasMoe = isGguf && hasExperts(config);
    const biases = biasesOf(config);
    return llamaLike(source, {
      names: mixtralNames,
      attention: (rope) => ({ rope, window, interleaved, ...biases.attention }),
      mlp: biases.mlp,
      moe: hasMoe ? moeOptions(source) : undefined,
      // The embedded model's.
      mtpPlace: 'mtp',
    });
  },
};

export const mixtralNames: FamilyNames = {
  hub: {
    router: 'block_sparse_moe.gate',
    expertGate: 'block_sparse_moe.experts.*.w1',
    expertUp: 'block_sparse_moe.experts.*.w3',
    expertDown: 'block_sparse_moe.experts.*.w2',
  },
  mlx: switchNames('block_sparse_moe.switch_mlp'),
};

function refusePartialRotation({ config, sizes }: ModelSource): void {
  const rotated = 2 * ropeOf(config, sizes).inverseFrequencies.length;
  if (rotated === sizes.headSize) return;
  throw configError(
    config,
    'rotary_dimensions',
    `rotates ${rotated} of ${sizes.headSize} values of a head`,
    'Use a file whose heads are rotated whole.',
  );
}
