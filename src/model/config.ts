// A model's configuration under Hugging Face field names, whichever file it came from, and checked readers
// for its fields. An error names the file and the field as the file itself spells it.

import { ModelFileError } from '../weights/model-file-error.ts';

export interface Config {
  readonly file: string;
  readonly fields: Readonly<Record<string, unknown>>;
  /** The file's own spelling of a field, where it differs from the Hugging Face name. */
  readonly spellings: Readonly<Record<string, string>>;
}

const DAMAGED = 'The file is damaged or was converted wrongly; download or convert it again.';

export function configError(
  config: Config,
  field: string,
  problem: string,
  remedy = DAMAGED,
): ModelFileError {
  return new ModelFileError({ file: config.file, field: config.spellings[field] ?? field, problem, remedy });
}

/** JSON's null means the same as an absent field. */
export function fieldOf(config: Config, field: string): unknown {
  return config.fields[field] ?? undefined;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// Sizes past this are damage, not models; it also keeps every product of two sizes an exact integer.
const LARGEST_SIZE = 2 ** 26;

export function optionalSize(config: Config, field: string): number | undefined {
  const value = fieldOf(config, field);
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > LARGEST_SIZE) {
    throw configError(
      config,
      field,
      `must be a whole number from 1 to ${LARGEST_SIZE}, but is ${describe(value)}`,
    );
  }
  return value;
}

export function optionalCount(config: Config, field: string): number | undefined {
  return fieldOf(config, field) === 0 ? 0 : optionalSize(config, field);
}

export function size(config: Config, field: string): number {
  return required(config, field, optionalSize(config, field));
}

export function optionalPositive(config: Config, field: string): number | undefined {
  const value = fieldOf(config, field);
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) {
    throw configError(config, field, `must be a positive number, but is ${describe(value)}`);
  }
  return value;
}

export function positive(config: Config, field: string): number {
  return required(config, field, optionalPositive(config, field));
}

export function optionalFlag(config: Config, field: string): boolean | undefined {
  const value = fieldOf(config, field);
  if (value === undefined || typeof value === 'boolean') return value;
  throw configError(config, field, `must be true or false, but is ${describe(value)}`, 'Correct the field.');
}

export function optionalNumbers(config: Config, field: string): readonly number[] | undefined {
  const value = fieldOf(config, field);
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.every((entry) => typeof entry === 'number' && entry > 0)) return value;
  throw configError(config, field, 'must be a list of positive numbers', 'Correct the field.');
}

export function optionalText(config: Config, field: string): string | undefined {
  const value = fieldOf(config, field);
  if (value === undefined || typeof value === 'string') return value;
  throw configError(config, field, `must be text, but is ${describe(value)}`, 'Correct the field.');
}

function required<T>(config: Config, field: string, value: T | undefined): T {
  if (value !== undefined) return value;
  throw configError(
    config,
    field,
    'is missing',
    'The file is incomplete; download it again or convert it with a current tool.',
  );
}

function describe(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  return (JSON.stringify(value) ?? typeof value).slice(0, 80);
}

/** A view of a nested object of the configuration, its fields spelled `outer.inner` in errors. */
export function nested(config: Config, outer: string, fields: Readonly<Record<string, unknown>>): Config {
  const spellings: Record<string, string> = {};
  for (const field of Object.keys(fields)) {
    spellings[field] = config.spellings[field] ?? `${config.spellings[outer] ?? outer}.${field}`;
  }
  return { file: config.file, fields, spellings };
}
