// What configurations say of layers: which are of which kind, and what those have in common.

import {
  type Config,
  configError,
  fieldOf,
  optionalCount,
  optionalFlag,
  optionalSize,
  optionalText,
} from './config.ts';
import type { Activation } from './layers/mlp.ts';
import type { ModelSource } from './model-source.ts';

const activations: Readonly<Record<string, Activation>> = {
  silu: 'silu',
  swish: 'silu',
  gelu: 'gelu',
  gelu_pytorch_tanh: 'gelu-tanh',
  gelu_new: 'gelu-tanh',
};

export function activationOf(
  config: Config,
  absent: Activation = 'silu',
  field: 'hidden_act' | 'hidden_activation' = 'hidden_act',
): Activation {
  const name = optionalText(config, field);
  if (name === undefined) return absent;
  const activation = activations[name];
  if (activation !== undefined) return activation;
  throw configError(
    config,
    field,
    `activation "${name}" is not supported`,
    `Use a model with one of: ${Object.keys(activations).join(', ')}.`,
  );
}

/** Of q, k and v, of the output, which is like those unless the file says otherwise, and of the feed-forward. */
export function biasesOf(config: Config) {
  const flag = (...fields: readonly string[]): boolean | undefined =>
    fields.map((field) => optionalFlag(config, field)).find((value) => value !== undefined);
  const queryKeyValueBias = flag('use_bias', 'attention_bias') ?? false;
  return {
    attention: {
      queryKeyValueBias,
      outputBias: flag('use_bias', 'attention_output_bias', 'attention_out_bias') ?? queryKeyValueBias,
    },
    mlp: { bias: flag('use_bias', 'mlp_bias') ?? false },
  };
}

export function windowOf(config: Config): number | undefined {
  return optionalCount(config, 'sliding_window') || undefined;
}

/** Of models that have one only where they say that they use it. */
export function usedWindowOf(config: Config): number | undefined {
  return optionalFlag(config, 'use_sliding_window') === true ? windowOf(config) : undefined;
}

/** Of encoders. Files give the width of the whole window: half of it lies on each side of a token. */
export function bidirectionalWindowOf(config: Config): number | undefined {
  const whole = windowOf(config);
  return whole === undefined ? undefined : Math.floor(whole / 2) + 1;
}

/** Which layers see a window only: the file's own list, or the architecture's rule. */
export function slidingLayers(
  { config, sizes }: ModelSource,
  rule: (index: number) => boolean,
  sliding = 'sliding_attention',
): readonly boolean[] {
  const types = fieldOf(config, 'layer_types');
  if (types === undefined) return Array.from({ length: sizes.layerCount }, (_, index) => rule(index));
  const known = ['full_attention', sliding];
  if (!Array.isArray(types) || types.length !== sizes.layerCount || !types.every((t) => known.includes(t))) {
    throw configError(
      config,
      'layer_types',
      `must name one of ${known.join(', ')} for each of the ${sizes.layerCount} layers`,
      'Use a model of a supported kind, or correct the field.',
    );
  }
  return types.map((type) => type === sliding);
}

/** The same, where every N-th layer sees all tokens. */
export function periodicSlidingLayers(source: ModelSource, period: number): readonly boolean[] {
  const { config } = source;
  const given =
    optionalSize(config, 'sliding_window_pattern') ?? optionalSize(config, '_sliding_window_pattern');
  return slidingLayers(source, (index) => (index + 1) % (given ?? period) !== 0);
}

/** Which layers have a rotary embedding: by the file's own list of ones and zeros, or all but every N-th (NoPE). */
export function ropeLayers({ config, sizes }: ModelSource, period: number): readonly boolean[] {
  const interval = optionalSize(config, 'no_rope_layer_interval') ?? period;
  const given = fieldOf(config, 'no_rope_layers');
  if (given === undefined || (Array.isArray(given) && given.length === 0)) {
    return Array.from({ length: sizes.layerCount }, (_, index) => (index + 1) % interval !== 0);
  }
  if (
    Array.isArray(given) &&
    given.length >= sizes.layerCount &&
    given.every((one) => one === 0 || one === 1)
  ) {
    return given.slice(0, sizes.layerCount).map((one) => one === 1);
  }
  throw configError(
    config,
    'no_rope_layers',
    `must hold 1 or 0 for each of the ${sizes.layerCount} layers`,
    'Correct the field.',
  );
}

/** Which layers of a hybrid are attention: by the file's own list, or by the architecture's rule. */
export function attentionLayers(
  { config, sizes }: ModelSource,
  rule: (index: number) => boolean,
): readonly boolean[] {
  const types = fieldOf(config, 'layer_types');
  if (Array.isArray(types) && types.length === sizes.layerCount) {
    return types.map((type) => type === 'full_attention' || type === 'attention');
  }
  if (types === undefined) return Array.from({ length: sizes.layerCount }, (_, index) => rule(index));
  throw configError(
    config,
    'layer_types',
    `must name the kind of each of the ${sizes.layerCount} layers`,
    'Use a model of a supported kind, or correct the field.',
  );
}

/**
 * The last `num_kv_shared_layers` layers read the cache of the last layer before that is of their kind. All layers before
 * have one of their own, so its number is the layer's.
 */
export function sharedCaches(
  { config, sizes }: ModelSource,
  kinds: readonly unknown[],
): readonly (number | undefined)[] {
  const shared = optionalCount(config, 'num_kv_shared_layers') ?? 0;
  const first = sizes.layerCount - shared;
  return kinds.map((kind, index) => {
    if (index < first) return undefined;
    const cache = kinds.slice(0, Math.max(0, first)).lastIndexOf(kind);
    if (cache >= 0) return cache;
    throw configError(
      config,
      'num_kv_shared_layers',
      `leaves layer ${index} no earlier layer of its kind to share keys and values with`,
    );
  });
}

/** Fields that may be lists, one size for each layer, in architectures that say so. */
export type ListField = 'intermediate_size' | 'num_key_value_heads';

const listName = (field: ListField): string => `${field} of layers`;

/** The largest in place of a list, which is kept under a name of its own. */
export function withLayerLists(config: Config, fields: readonly ListField[]): Config {
  const lists: Record<string, unknown> = {};
  for (const field of fields) {
    const value = config.fields[field];
    const list: unknown = ArrayBuffer.isView(value) ? Array.from(value as Uint32Array) : value;
    if (!Array.isArray(list) || !list.every((size) => typeof size === 'number')) continue;
    lists[listName(field)] = list;
    lists[field] = Math.max(...list);
  }
  return { ...config, fields: { ...config.fields, ...lists } };
}

/** The size of each layer; undefined where the file gives one for all. */
export function layerList({ config, sizes }: ModelSource, field: ListField): readonly number[] | undefined {
  const list = fieldOf(config, listName(field));
  if (list === undefined) return undefined;
  const isSize = (size: unknown) => typeof size === 'number' && Number.isInteger(size) && size > 0;
  if (Array.isArray(list) && list.length === sizes.layerCount && list.every(isSize)) return list;
  throw configError(
    config,
    field,
    `must be one whole number, or one for each of the ${sizes.layerCount} layers`,
  );
}
