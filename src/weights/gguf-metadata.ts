// Typed access to a GGUF file's metadata: the value of the wanted kind, or an error that names file and key.

import type { GgufFile } from './gguf.ts';
import type { GgufNumbers, GgufValue } from './gguf-values.ts';
import { ModelFileError } from './model-file-error.ts';

export class MetadataReader {
  readonly #path: string;
  readonly #metadata: ReadonlyMap<string, GgufValue>;

  constructor(gguf: Pick<GgufFile, 'path' | 'metadata'>) {
    this.#path = gguf.path;
    this.#metadata = gguf.metadata;
  }

  string(key: string): string {
    return this.#required(key, this.optionalString(key));
  }

  optionalString(key: string): string | undefined {
    return this.#ofKind(key, 'a string', (value) => typeof value === 'string');
  }

  /** A finite number; a 64-bit integer beyond 2^53 is refused. */
  number(key: string): number {
    return this.#required(key, this.optionalNumber(key));
  }

  optionalNumber(key: string): number | undefined {
    return this.#ofKind(key, 'a finite number', (value) => Number.isFinite(value));
  }

  boolean(key: string): boolean {
    return this.#required(key, this.optionalBoolean(key));
  }

  optionalBoolean(key: string): boolean | undefined {
    return this.#ofKind(key, 'a boolean', (value) => typeof value === 'boolean');
  }

  strings(key: string): readonly string[] {
    return this.#required(key, this.optionalStrings(key));
  }

  optionalStrings(key: string): readonly string[] | undefined {
    return this.#ofKind(key, 'an array of strings', (value) => Array.isArray(value));
  }

  numbers(key: string): Exclude<GgufNumbers, BigInt64Array | BigUint64Array> {
    return this.#required(key, this.optionalNumbers(key));
  }

  optionalNumbers(key: string): Exclude<GgufNumbers, BigInt64Array | BigUint64Array> | undefined {
    return this.#ofKind(key, 'an array of numbers', isNumberArray);
  }

  #ofKind<Value extends GgufValue>(
    key: string,
    kind: string,
    accepts: (value: GgufValue) => boolean,
  ): Value | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined) return undefined;
    if (accepts(value)) return value as Value;
    throw this.fault(key, `is not ${kind}`);
  }

  #required<Value>(key: string, value: Value | undefined): Value {
    if (value !== undefined) return value;
    throw this.fault(key, 'the key is missing');
  }

  fault(key: string, problem: string): ModelFileError {
    const remedy = 'Use a complete GGUF file of a supported model, or convert it again.';
    return new ModelFileError({ file: this.#path, field: key, problem, remedy });
  }
}

function isNumberArray(value: GgufValue): boolean {
  return ArrayBuffer.isView(value) && !(value instanceof BigInt64Array || value instanceof BigUint64Array);
}
