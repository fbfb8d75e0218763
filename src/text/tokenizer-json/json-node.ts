// An object of a tokenizer file with its path, which errors name.

import { isJsonObject, type JsonObject } from '../../weights/json-file.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { fromOniguruma, UnsupportedPattern } from '../oniguruma/oniguruma.ts';

// Far above any vocabulary; tables indexed by id stay small.
const maxInteger = 2 ** 24;

export class JsonNode {
  readonly file: string;
  /** Such as `pre_tokenizer.pretokenizers[1]`. */
  readonly field: string;
  readonly value: JsonObject;

  constructor(file: string, field: string, value: JsonObject) {
    this.file = file;
    this.field = field;
    this.value = value;
  }

  get type(): string {
    return this.string('type');
  }

  string(key: string): string {
    const value = this.value[key];
    if (typeof value === 'string') return value;
    throw this.fault(key, 'is not a string');
  }

  boolean(key: string, absent: boolean): boolean {
    const value = this.value[key] ?? absent;
    if (typeof value === 'boolean') return value;
    throw this.fault(key, 'is not a boolean');
  }

  integer(key: string): number {
    const value = this.value[key];
    if (Number.isInteger(value) && (value as number) >= 0 && (value as number) < maxInteger)
      return value as number;
    throw this.fault(key, `is not a whole number from 0 to ${maxInteger - 1}`);
  }

  /** Undefined where it is absent or null. */
  child(key: string): JsonNode | undefined {
    const value = this.value[key] ?? undefined;
    if (value === undefined) return undefined;
    if (isJsonObject(value)) return new JsonNode(this.file, this.#path(key), value);
    throw this.fault(key, 'is not an object');
  }

  /** Empty where it is absent. */
  children(key: string): JsonNode[] {
    return this.list(key).map((value, index) => {
      const field = `${this.#path(key)}[${index}]`;
      if (isJsonObject(value)) return new JsonNode(this.file, field, value);
      throw this.fault(`${key}[${index}]`, 'is not an object');
    });
  }

  list(key: string): readonly unknown[] {
    const value = this.value[key] ?? [];
    if (Array.isArray(value)) return value;
    throw this.fault(key, 'is not a list');
  }

  fault(key: string, problem: string): ModelFileError {
    const remedy = 'Use the tokenizer files that came with the model, or a GGUF file of it.';
    return new ModelFileError({ file: this.file, field: this.#path(key), problem, remedy });
  }

  unsupportedType(): ModelFileError {
    return this.fault('type', `${JSON.stringify(this.type)} is not supported`);
  }

  #path(key: string): string {
    return this.field === '' ? key : `${this.field}.${key}`;
  }
}

export function readPattern(component: JsonNode): RegExp {
  const pattern = component.child('pattern');
  if (pattern === undefined) throw component.fault('pattern', 'is missing');
  if (pattern.value.String !== undefined) {
    return new RegExp(pattern.string('String').replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'gv');
  }
  try {
    return fromOniguruma(pattern.string('Regex'));
  } catch (error) {
    throw error instanceof UnsupportedPattern ? pattern.fault('Regex', error.message) : error;
  }
}
