// Mixtures of experts as configurations describe them.

import type { ExpertTraits, LayerTraits, ModelSource } from './architecture.ts';
import { type Config, configError, optionalFlag, optionalPositive, optionalSize, size } from './config.ts';
import type { RouterSpec } from './spec.ts';

/** How many experts there are; families spell it differently. */
const countFields = ['num_experts', 'num_local_experts', 'n_routed_experts', 'moe_num_experts'] as const;
const usedFields = ['num_experts_per_tok', 'moe_k'] as const;

const firstOf = (config: Config, fields: readonly string[]): string =>
  fields.find((field) => optionalSize(config, field) !== undefined) ?? (fields[0] as string);

/** Whether the file has experts at all. */
export function hasExperts(config: Config): boolean {
  return countFields.some((field) => optionalSize(config, field) !== undefined);
}

/** What a family does, where its files do not say. */
export interface RouterDefaults {
  readonly score: RouterSpec['score'];
  readonly normalized: boolean;
}

export function expertTraits({ config, sizes }: ModelSource, defaults: RouterDefaults): ExpertTraits {
  const countField = firstOf(config, countFields);
  const usedField = firstOf(config, usedFields);
  const count = size(config, countField);
  const used = size(config, usedField);
  if (used > count) {
    throw configError(
      config,
      usedField,
      `asks for ${used} of ${count} experts`,
      'The file is damaged or was converted wrongly; download or convert it again.',
    );
  }
  return {
    count,
    size: optionalSize(config, 'moe_intermediate_size') ?? sizes.ffnSize,
    router: {
      score: defaults.score,
      used,
      normalized: optionalFlag(config, 'norm_topk_prob') ?? defaults.normalized,
      scale: optionalPositive(config, 'routed_scaling_factor') ?? 1,
    },
  };
}

/** Which layers have experts: by a list of those that have none, every so many layers, after so many dense ones. */
export function withExperts({ config }: ModelSource, layers: readonly LayerTraits[]): LayerTraits[] {
  const step = optionalSize(config, 'decoder_sparse_step') ?? 1;
  const dense = config.fields.mlp_only_layers;
  const isDense = (index: number) => Array.isArray(dense) && dense.includes(index);
  const first = config.fields.first_k_dense_replace ?? config.fields.num_dense_layers;
  const firstSparse = typeof first === 'number' ? first : 0;
  return layers.map((layer, index) => ({
    ...layer,
    experts: index >= firstSparse && (index + 1) % step === 0 && !isDense(index),
  }));
}
