// Typed access to a GGUF file's metadata: the value of the wanted kind, or an error that names file and key.

import type { GgufCursor } from './gguf-cursor.ts';
import { ModelFileError } from './model-file-error.ts';

type GgufNumbers =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/** 64-bit integers are numbers up to 2^53 and bigints beyond. Booleans in an array are bytes 0 and 1. */
export type GgufValue = string | number | bigint | boolean | readonly string[] | GgufNumbers;

type ReadValue = (cursor: GgufCursor, key: string) => GgufValue;

export const STRING_TYPE = 8;
export const ARRAY_TYPE = 9;
// An empty string still has its length, and a metadata entry a key, a type and one byte.
const STRING_MIN_BYTES = 8;
export const ENTRY_MIN_BYTES = 13;

const scalarReaders: ReadonlyMap<number, ReadValue> = new Map<number, ReadValue>([
  [0, (cursor, key) => cursor.uint8(key)],
  [1, (cursor, key) => cursor.int8(key)],
  [2, (cursor, key) => cursor.uint16(key)],
  [3, (cursor, key) => cursor.int16(key)],
  [4, (cursor, key) => cursor.uint32(key)],
  [5, (cursor, key) => cursor.int32(key)],
  [6, (cursor, key) => cursor.float32(key)],
  [7, readBoolean],
  [STRING_TYPE, (cursor, key) => cursor.string(key)],
  [10, (cursor, key) => numberIfSafe(cursor.uint64(key))],
  [11, (cursor, key) => numberIfSafe(cursor.int64(key))],
  [12, (cursor, key) => cursor.float64(key)],
]);

interface NumericArrayType {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, byteOffset: number, length: number): GgufNumbers;
}

export const numericArrays: ReadonlyMap<number, NumericArrayType> = new Map<number, NumericArrayType>([
  [0, Uint8Array],
  [1, Int8Array],
  [2, Uint16Array],
  [3, Int16Array],
  [4, Uint32Array],
  [5, Int32Array],
  [6, Float32Array],
  [7, Uint8Array],
  [10, BigUint64Array],
  [11, BigInt64Array],
  [12, Float64Array],
]);

export function readMetadata(cursor: GgufCursor, count: number): Map<string, GgufValue> {
  const metadata = new Map<string, GgufValue>();
  for (let index = 0; index < count; index++) {
    const key = cursor.string(`metadata key ${index}`);
    if (metadata.has(key)) throw cursor.fault(key, 'the key occurs twice');
    metadata.set(key, readValue(cursor, key));
  }
  return metadata;
}

function readValue(cursor: GgufCursor, key: string): GgufValue {
  const type = cursor.uint32(key);
  if (type === ARRAY_TYPE) return readArray(cursor, key);
  const read = scalarReaders.get(type);
  if (read === undefined) throw unknownType(cursor, key, type);
  return read(cursor, key);
}

function readArray(cursor: GgufCursor, key: string): GgufValue {
  const type = cursor.uint32(key);
  if (type === STRING_TYPE) return readStrings(cursor, key);
  if (type === ARRAY_TYPE) {
    throw cursor.fault(key, 'holds arrays within an array', 'Remove the key, or convert the model again.');
  }
  const NumericArray = numericArrays.get(type);
  if (NumericArray === undefined) throw unknownType(cursor, key, type);
  const count = cursor.count(NumericArray.BYTES_PER_ELEMENT, key);
  const bytes = cursor.bytes(count * NumericArray.BYTES_PER_ELEMENT, key);
  return new NumericArray(bytes.buffer as ArrayBuffer, bytes.byteOffset, count);
}

function readStrings(cursor: GgufCursor, key: string): readonly string[] {
  const count = cursor.count(STRING_MIN_BYTES, key);
  const strings: string[] = [];
  for (let index = 0; index < count; index++) strings.push(cursor.string(key));
  return strings;
}

function readBoolean(cursor: GgufCursor, key: string): boolean {
  const byte = cursor.uint8(key);
  if (byte > 1) throw cursor.fault(key, `is ${byte} where a boolean must be 0 or 1`);
  return byte === 1;
}

function numberIfSafe(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function unknownType(cursor: GgufCursor, key: string, type: number): ModelFileError {
  return cursor.fault(key, `has the unknown value type ${type}`);
}

export class MetadataReader {
  readonly #path: string;
  readonly #metadata: ReadonlyMap<string, GgufValue>;

  constructor(gguf: { readonly path: string; readonly metadata: ReadonlyMap<string, GgufValue> }) {
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
