// Writes small GGUF files for tests, and says where the header's counts and lengths lie so that tests can lie
// with them.

import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';

type GgufWriterValue =
  | { readonly type: 'u8' | 'i8' | 'u16' | 'i16' | 'u32' | 'i32' | 'f32' | 'f64'; readonly value: number }
  | { readonly type: 'u64' | 'i64'; readonly value: bigint }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'bools'; readonly value: readonly boolean[] }
  | { readonly type: 'i32s'; readonly value: readonly number[] }
  | { readonly type: 'f32s'; readonly value: readonly number[] };

export interface GgufWriterTensor {
  readonly name: string;
  readonly type: TensorType;
  /** Outermost dimension first. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export interface GgufContent {
  readonly version?: number;
  readonly metadata: Readonly<Record<string, GgufWriterValue>>;
  readonly tensors: readonly GgufWriterTensor[];
}

/** A number in the header that the rest of the file depends on. */
export interface HeaderField {
  readonly name: string;
  readonly offset: number;
  readonly bytes: 4 | 8;
}

interface WrittenFile {
  readonly bytes: Buffer;
  readonly fields: readonly HeaderField[];
}

const ALIGNMENT = 32;

const tensorTypeIds: Partial<Record<TensorType, number>> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q5_0: 6,
  Q5_1: 7,
  Q8_0: 8,
  Q2_K: 10,
  Q3_K: 11,
  Q4_K: 12,
  Q5_K: 13,
  Q6_K: 14,
  IQ2_XXS: 16,
  IQ2_XS: 17,
  IQ3_XXS: 18,
  IQ1_S: 19,
  IQ4_NL: 20,
  IQ3_S: 21,
  IQ2_S: 22,
  IQ4_XS: 23,
  IQ1_M: 29,
  BF16: 30,
  TQ1_0: 34,
  TQ2_0: 35,
  MXFP4: 39,
};

const valueTypeIds = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

export function writeGguf({ version = 3, metadata, tensors }: GgufContent): WrittenFile {
  const header = new HeaderWriter();
  header.raw(Buffer.from('GGUF'));
  header.uint32(version, 'version');
  header.uint64(tensors.length, 'tensor count');
  header.uint64(Object.keys(metadata).length, 'metadata count');
  for (const [key, value] of Object.entries(metadata)) writeEntry(header, key, value);

  let dataOffset = 0;
  for (const tensor of tensors) {
    checkTensor(tensor);
    header.string(tensor.name, `${tensor.name} name length`);
    header.uint32(tensor.shape.length, `${tensor.name} dimensions`);
    for (const size of tensor.shape.toReversed()) header.uint64(size, `${tensor.name} dimension`);
    header.uint32(tensorTypeIds[tensor.type] ?? -1, `${tensor.name} type`);
    header.uint64(dataOffset, `${tensor.name} offset`);
    dataOffset = align(dataOffset + tensor.bytes.length);
  }
  const parts = [header.bytes(), ...tensors.map((tensor) => tensor.bytes)];
  return { bytes: Buffer.concat(parts.map(padded)), fields: header.fields };
}

function writeEntry(header: HeaderWriter, key: string, entry: GgufWriterValue): void {
  header.string(key, `${key} key length`);
  switch (entry.type) {
    case 'strings':
      header.array(valueTypeIds.string, entry.value.length, key);
      for (const text of entry.value) header.string(text, `${key} item length`);
      return;
    case 'bools':
      header.array(valueTypeIds.bool, entry.value.length, key);
      header.raw(Buffer.from(entry.value.map(Number)));
      return;
    case 'i32s':
      header.array(valueTypeIds.i32, entry.value.length, key);
      header.raw(Buffer.from(Int32Array.from(entry.value).buffer));
      return;
    case 'f32s':
      header.array(valueTypeIds.f32, entry.value.length, key);
      header.raw(Buffer.from(Float32Array.from(entry.value).buffer));
      return;
    case 'string':
      header.uint32(valueTypeIds.string, `${key} type`);
      header.string(entry.value, `${key} length`);
      return;
    case 'u32':
      header.uint32(valueTypeIds.u32, `${key} type`);
      header.uint32(entry.value, `${key} value`);
      return;
    default:
      header.uint32(valueTypeIds[entry.type], `${key} type`);
      header.raw(scalarBytes(entry));
  }
}

type Scalar = Exclude<GgufWriterValue, { readonly value: string | readonly unknown[] }>;

function scalarBytes(entry: Scalar): Buffer {
  const buffer = Buffer.alloc(8);
  switch (entry.type) {
    case 'u8':
      return buffer.subarray(0, buffer.writeUInt8(entry.value));
    case 'i8':
      return buffer.subarray(0, buffer.writeInt8(entry.value));
    case 'bool':
      return buffer.subarray(0, buffer.writeUInt8(entry.value ? 1 : 0));
    case 'u16':
      return buffer.subarray(0, buffer.writeUInt16LE(entry.value));
    case 'i16':
      return buffer.subarray(0, buffer.writeInt16LE(entry.value));
    case 'u32':
      return buffer.subarray(0, buffer.writeUInt32LE(entry.value));
    case 'i32':
      return buffer.subarray(0, buffer.writeInt32LE(entry.value));
    case 'f32':
      return buffer.subarray(0, buffer.writeFloatLE(entry.value));
    case 'f64':
      return buffer.subarray(0, buffer.writeDoubleLE(entry.value));
    case 'u64':
      return buffer.subarray(0, buffer.writeBigUInt64LE(entry.value));
    case 'i64':
      return buffer.subarray(0, buffer.writeBigInt64LE(entry.value));
  }
}

class HeaderWriter {
  readonly fields: HeaderField[] = [];
  readonly #parts: Buffer[] = [];
  #length = 0;

  raw(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.#length += bytes.length;
  }

  uint32(value: number, field: string): void {
    this.fields.push({ name: field, offset: this.#length, bytes: 4 });
    const buffer = Buffer.alloc(4);
    buffer.writeUInt32LE(value);
    this.raw(buffer);
  }

  uint64(value: number, field: string): void {
    this.fields.push({ name: field, offset: this.#length, bytes: 8 });
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64LE(BigInt(value));
    this.raw(buffer);
  }

  string(text: string, field: string): void {
    const bytes = Buffer.from(text, 'utf8');
    this.uint64(bytes.length, field);
    this.raw(bytes);
  }

  array(itemType: number, count: number, key: string): void {
    this.uint32(9, `${key} type`);
    this.uint32(itemType, `${key} item type`);
    this.uint64(count, `${key} count`);
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

function checkTensor({ name, type, shape, bytes }: GgufWriterTensor): void {
  const { blockSize, blockBytes } = tensorLayouts[type];
  const values = shape.reduce((product, size) => product * size, 1);
  if ((values / blockSize) * blockBytes !== bytes.length) throw new Error(`${name}: wrong number of bytes`);
}

function align(offset: number): number {
  return Math.ceil(offset / ALIGNMENT) * ALIGNMENT;
}

function padded(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes], align(bytes.length));
}
