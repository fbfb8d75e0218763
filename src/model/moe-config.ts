// Mixtures of experts (MoE) as configurations describe them.

import {
  type Config,
  configError,
  fieldOf,
  optionalCount,
  optionalFlag,
  optionalPositive,
  optionalSize,
  size,
} from './config.ts';
import type { MoeOptions, RouterSpec } from './layers/moe.ts';
import type { ModelSource } from './model-source.ts';

const countFields = ['num_experts', 'num_local_experts', 'n_routed_experts', 'moe_num_experts'] as const;
const usedFields = ['num_experts_per_tok', 'moe_k', 'top_k_experts'] as const;
const sharedFields = ['n_shared_experts', 'moe_num_shared_experts'] as const;
const stepFields = ['decoder_sparse_step', 'moe_layer_interval', 'interleave_moe_layer_step'] as const;
const firstFields = ['first_k_dense_replace', 'moe_layer_start_index', 'num_dense_layers'] as const;

const spelled = (config: Config, fields: readonly string[]): string =>
  fields.find((field) => fieldOf(config, field) !== undefined) ?? (fields[0] as string);

/** Whether the file has experts at all; 0 stands for none. */
export function hasExperts(config: Config): boolean {
  return countFields.some((field) => (optionalCount(config, field) ?? 0) > 0);
}

/** What a family does, where its files do not say; most do the usual. */
interface RouterDefaults {
  readonly score: RouterSpec['score'];
  readonly normalized: boolean;
  /** How groups of experts are compared, in families that have them. */
  readonly groups?: 'best' | 'best-two' | undefined;
}

const usual: RouterDefaults = { score: 'softmax', normalized: true };

export function moeOptions(source: ModelSource, defaults = usual): MoeOptions {
  const { config, sizes } = source;
  const usedField = spelled(config, usedFields);
  const countField = spelled(config, countFields);
  const count = size(config, countField);
  const used = size(config, usedField);
  if (used > count) throw configError(config, usedField, `asks for ${used} of ${count} experts`);
  const expertSize = optionalSize(config, 'moe_intermediate_size') ?? sizes.ffnSize;
  const groups = defaults.groups && groupsOf(config, count, used, defaults.groups);
  return {
    count,
    countField,
    size: expertSize,
    router: {
      score: scoreOf(config) ?? defaults.score,
      used,
      ...(groups === undefined ? {} : { groups }),
      normalized: optionalFlag(config, 'norm_topk_prob') ?? defaults.normalized,
      scale: optionalPositive(config, 'routed_scaling_factor') ?? 1,
    },
    shared: sharedOf(config, expertSize),
    isSparse: sparseLayers(source),
  };
}

// GGUF files count the ways. The third is a softmax over those that are chosen, which comes to the first, normalized.
const scores: Readonly<Record<string, RouterSpec['score']>> = {
  softmax: 'softmax',
  sigmoid: 'sigmoid',
  1: 'softmax',
  2: 'sigmoid',
  3: 'softmax',
};

function scoreOf(config: Config): RouterSpec['score'] | undefined {
  const given = fieldOf(config, 'scoring_func');
  if (given === undefined) return undefined;
  const score = scores[String(given)];
  if (score !== undefined) return score;
  const problem = `experts scored by ${JSON.stringify(given)} are not supported`;
  throw configError(
    config,
    'scoring_func',
    problem,
    'Use a model whose experts are scored by softmax or sigmoid.',
  );
}

function groupsOf(
  config: Config,
  count: number,
  used: number,
  by: 'best' | 'best-two',
): RouterSpec['groups'] {
  const groups = optionalSize(config, 'n_group') ?? 1;
  if (groups === 1) return undefined;
  const usedGroups = size(config, 'topk_group');
  const groupSize = count / groups;
  const refuse = (field: string, problem: string) => configError(config, field, problem);
  if (!Number.isInteger(groupSize))
    throw refuse('n_group', `${count} experts cannot form ${groups} groups evenly`);
  if (usedGroups > groups) throw refuse('topk_group', `asks for ${usedGroups} of ${groups} groups`);
  if (used > usedGroups * groupSize)
    throw refuse('topk_group', `${usedGroups} groups of ${groupSize} do not hold ${used} experts`);
  return { count: groups, used: usedGroups, by };
}

/** Experts that every row goes through are stored as one. */
function sharedOf(config: Config, expertSize: number): MoeOptions['shared'] {
  const count = optionalCount(config, spelled(config, sharedFields)) ?? 0;
  return count === 0 ? undefined : { size: count * expertSize, gated: false };
}

/** One more expert, which all rows use, has a gate of its own. A size of 0 stands for none. */
export function withSharedExpert({ config }: ModelSource, moe: MoeOptions, usualSize: number): MoeOptions {
  const size = optionalCount(config, 'shared_expert_intermediate_size') ?? usualSize;
  return { ...moe, shared: size === 0 ? undefined : { size, gated: true } };
}

/** Which layers have experts: by a list of those that have none, every N-th layer, after N dense ones. */
function sparseLayers({ config }: ModelSource): MoeOptions['isSparse'] {
  const step = optionalSize(config, spelled(config, stepFields)) ?? 1;
  const dense = fieldOf(config, 'mlp_only_layers');
  const kinds = fieldOf(config, 'mlp_layer_types');
  const isDense = (index: number) =>
    (Array.isArray(dense) && dense.includes(index)) || (Array.isArray(kinds) && kinds[index] === 'dense');
  const first = optionalCount(config, spelled(config, firstFields)) ?? 0;
  // -1 stands for the last layer.
  const end =
    fieldOf(config, 'moe_layer_end_index') === -1 ? undefined : optionalCount(config, 'moe_layer_end_index');
  return (index) => index >= first && index <= (end ?? index) && (index + 1) % step === 0 && !isDense(index);
}
