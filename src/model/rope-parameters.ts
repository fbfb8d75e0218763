// Finds a model's rotary parameters in its configuration, checks them, and makes the table. Knows the old
// spelling (`rope_theta` and `rope_scaling`) and the new one (`rope_parameters`, also per layer type).

import {
  type Config,
  configError,
  fieldOf,
  isRecord,
  nested,
  optionalFlag,
  optionalNumbers,
  optionalPositive,
  optionalSize,
  optionalText,
  positive,
  size,
} from './config.ts';
import { longropeMagnitude, type RopeScaling, ropeTable, yarnMagnitude } from './rope.ts';
import type { ModelSizes } from './sizes.ts';
import type { RopeSpec } from './spec.ts';

const SCALINGS = 'default, linear, llama3, yarn, longrope';

/** The rotary table of one layer type (`full_attention`, `sliding_attention`), or of all layers alike. */
export function ropeOf(config: Config, sizes: ModelSizes, layerType?: string): RopeSpec {
  const parameters = ropeParameters(config, layerType);
  const dimensions = rotatedDimensions(parameters, sizes.headSize);
  if (dimensions > sizes.headSize || dimensions < 2 || dimensions % 2 !== 0) {
    throw configError(
      parameters,
      fieldOf(parameters, 'rotary_dimensions') === undefined ? 'partial_rotary_factor' : 'rotary_dimensions',
      `rotates ${dimensions} of ${sizes.headSize} values of a head, which must be an even number of them`,
      'Correct the rotary factor or the head size.',
    );
  }
  const geometry = { base: baseOf(parameters, dimensions), dimensions };
  const table = ropeTable(geometry, scalingOf(parameters, sizes, dimensions / 2));
  const axes = axesOf(parameters, dimensions / 2);
  return axes === undefined ? table : { ...table, axes };
}

/** Models that see images turn some pairs by a token's row or column: in sections, or in turn from the first pair on. */
function axesOf(parameters: Config, pairs: number): readonly number[] | undefined {
  const given = fieldOf(parameters, 'mrope_section');
  if (given === undefined) return undefined;
  const sections: unknown = ArrayBuffer.isView(given) ? Array.from(given as Int32Array) : given;
  const isCount = (count: unknown) => typeof count === 'number' && Number.isInteger(count) && count >= 0;
  if (!Array.isArray(sections) || !sections.every(isCount) || sections.length < 3) {
    throw configError(parameters, 'mrope_section', 'must be three whole numbers');
  }
  const [time, rows, columns] = sections as [number, number, number];
  // Such a file is of use to text, whose three positions are one; images are refused where nothing turns by axes.
  if (time + rows + columns !== pairs) return undefined;
  const isInterleaved = optionalFlag(parameters, 'mrope_interleaved') ?? false;
  return Array.from({ length: pairs }, (_, pair) => {
    if (!isInterleaved) return pair < time ? 0 : pair < time + rows ? 1 : 2;
    const axis = pair % 3;
    return axis > 0 && pair < 3 * (axis === 1 ? rows : columns) ? axis : 0;
  });
}

/** Some models are made for long contexts by a factor on the base alone, whatever the length; they call it dynamic. */
function baseOf(parameters: Config, dimensions: number): number {
  const base = optionalPositive(parameters, 'rope_theta') ?? 10_000;
  return growsBase(parameters)
    ? base * positive(parameters, 'alpha') ** (dimensions / (dimensions - 2))
    : base;
}

function growsBase(parameters: Config): boolean {
  return scalingType(parameters) === 'dynamic' && fieldOf(parameters, 'alpha') !== undefined;
}

/** Of layers with a window: never stretched, unless the file describes them apart. */
export function localRopeOf(config: Config, sizes: ModelSizes, base: unknown): RopeSpec {
  const apart = fieldOf(config, 'rope_parameters');
  if (isRecord(apart) && isRecord(apart.sliding_attention)) return ropeOf(config, sizes, 'sliding_attention');
  const local = fieldOf(config, 'rope_local_base_freq') ?? base;
  return ropeOf({ ...config, fields: { rope_theta: local } }, sizes);
}

/** GGUF files count the rotated values, config.json gives their share of a head. */
function rotatedDimensions(parameters: Config, headSize: number): number {
  const share = optionalPositive(parameters, 'partial_rotary_factor') ?? 1;
  if (scalingType(parameters) === 'proportional') return headSize;
  return optionalSize(parameters, 'rotary_dimensions') ?? Math.trunc(headSize * share);
}

/** Positions the model was made for; yarn added to a file's configuration extends the length it states. */
export function modelContext(config: Config): number {
  const stated = size(config, 'max_position_embeddings');
  const parameters = ropeParameters(config);
  const factor = optionalPositive(parameters, 'factor');
  if (scalingType(parameters) !== 'yarn' || factor === undefined) return stated;
  return Math.max(stated, Math.trunc(originalContext(parameters) * factor));
}

const outerFields = ['rope_theta', 'partial_rotary_factor', 'max_position_embeddings', 'mrope_interleaved'];

/** Rotary parameters as one flat object: the file's own, completed with its outer fields. */
export function ropeParameters(config: Config, layerType?: string): Config {
  const outer: Record<string, unknown> = {};
  for (const field of outerFields) {
    if (fieldOf(config, field) !== undefined) outer[field] = fieldOf(config, field);
  }
  const name = isRecord(fieldOf(config, 'rope_parameters')) ? 'rope_parameters' : 'rope_scaling';
  let own = fieldOf(config, name);
  if (isRecord(own) && layerType !== undefined && isRecord(own[layerType])) own = own[layerType];
  const view = nested(config, name, isRecord(own) ? own : {});
  const original = fieldOf(config, 'original_max_position_embeddings');
  const pretrained = original === undefined ? {} : { original_max_position_embeddings: original };
  return {
    file: config.file,
    fields: { ...outer, ...withoutNulls(view.fields), ...pretrained },
    spellings: { ...config.spellings, ...view.spellings },
  };
}

function withoutNulls(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function scalingType(parameters: Config): string {
  const type = optionalText(parameters, 'rope_type') ?? optionalText(parameters, 'type') ?? 'default';
  // Early Phi-3 files call longrope `su` or `yarn`.
  if (type === 'su' || (type === 'yarn' && fieldOf(parameters, 'long_factor') !== undefined))
    return 'longrope';
  // What sees images names its sections here, and stretches nothing.
  return type === 'mrope' && fieldOf(parameters, 'mrope_section') !== undefined ? 'default' : type;
}

function scalingOf(parameters: Config, sizes: ModelSizes, pairs: number): RopeScaling {
  const type = growsBase(parameters) ? 'default' : scalingType(parameters);
  switch (type) {
    case 'default':
      return { type };
    case 'linear':
      return { type, factor: positive(parameters, 'factor') };
    case 'llama3':
      return llama3Scaling(parameters);
    case 'yarn':
      return yarnScaling(parameters);
    case 'longrope':
      return longropeScaling(parameters, sizes, pairs);
    case 'proportional': {
      const share = optionalPositive(parameters, 'partial_rotary_factor') ?? 1;
      return { type, factor: optionalPositive(parameters, 'factor') ?? 1, pairs: Math.trunc(share * pairs) };
    }
    case 'per-pair':
      return { type, factors: pairFactors(parameters, 'factors', pairs), magnitude: 1 };
    default:
      throw configError(
        parameters,
        fieldOf(parameters, 'rope_type') === undefined ? 'type' : 'rope_type',
        `rotary scaling "${type}" is not supported`,
        `Use a model with one of: ${SCALINGS}.`,
      );
  }
}

export function originalContext(parameters: Config): number {
  const given = fieldOf(parameters, 'original_max_position_embeddings') !== undefined;
  return size(parameters, given ? 'original_max_position_embeddings' : 'max_position_embeddings');
}

function llama3Scaling(parameters: Config): RopeScaling {
  const lowFrequencyFactor = positive(parameters, 'low_freq_factor');
  const highFrequencyFactor = positive(parameters, 'high_freq_factor');
  if (highFrequencyFactor <= lowFrequencyFactor) {
    throw configError(
      parameters,
      'high_freq_factor',
      `must be above low_freq_factor (${lowFrequencyFactor}), but is ${highFrequencyFactor}`,
      'Correct the rotary scaling.',
    );
  }
  return {
    type: 'llama3',
    factor: positive(parameters, 'factor'),
    lowFrequencyFactor,
    highFrequencyFactor,
    originalContext: originalContext(parameters),
  };
}

function contextFactor(parameters: Config, original: number): number {
  return optionalPositive(parameters, 'factor') ?? size(parameters, 'max_position_embeddings') / original;
}

/** What yarn makes of attention's scale, in models that weigh it. */
export function yarnAttentionScale(config: Config): number {
  const parameters = ropeParameters(config);
  const weight = optionalPositive(parameters, 'mscale_all_dim');
  if (weight === undefined || scalingType(parameters) !== 'yarn') return 1;
  return yarnMagnitude(contextFactor(parameters, originalContext(parameters)), weight) ** 2;
}

function yarnScaling(parameters: Config): RopeScaling {
  const original = originalContext(parameters);
  const factor = contextFactor(parameters, original);
  const weight = optionalPositive(parameters, 'mscale');
  const weightAll = optionalPositive(parameters, 'mscale_all_dim');
  const suggested =
    weight !== undefined && weightAll !== undefined
      ? yarnMagnitude(factor, weight) / yarnMagnitude(factor, weightAll)
      : yarnMagnitude(factor);
  return {
    type: 'yarn',
    factor,
    originalContext: original,
    betaFast: optionalPositive(parameters, 'beta_fast') ?? 32,
    betaSlow: optionalPositive(parameters, 'beta_slow') ?? 1,
    truncate: optionalFlag(parameters, 'truncate') ?? true,
    magnitude: optionalPositive(parameters, 'attention_factor') ?? suggested,
  };
}

/** Short factors serve contexts up to the original one, long factors anything beyond. */
function longropeScaling(parameters: Config, sizes: ModelSizes, pairs: number): RopeScaling {
  const original = originalContext(parameters);
  const suggested = longropeMagnitude(contextFactor(parameters, original), original);
  const field = sizes.contextLength > original ? 'long_factor' : 'short_factor';
  return {
    type: 'per-pair',
    factors: pairFactors(parameters, field, pairs),
    magnitude: optionalPositive(parameters, 'attention_factor') ?? suggested,
  };
}

function pairFactors(parameters: Config, field: string, pairs: number): readonly number[] {
  const factors = optionalNumbers(parameters, field);
  if (factors?.length === pairs) return factors;
  throw configError(
    parameters,
    field,
    `must hold ${pairs} positive numbers, one a rotary pair, but holds ${factors?.length ?? 'none'}`,
  );
}
