// Safetensors: a JSON header of names, types, shapes and byte ranges before the data. Opens one file or several, or a
// sharded model by its index. Float tensors are served as weights.

import { basename, dirname, join } from 'node:path';
import { type FileReader, openFile, refuseLfsPointer } from './file-reader.ts';
import { isJsonObject, jsonFault, MAX_JSON_BYTES, parseJsonObject, readJsonFile } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { refuseOverlap, type StoredTensor, storedWeights } from './stored-weights.ts';
import type { TensorType } from './tensor-type.ts';
import type { WeightSource } from './weight-source.ts';

export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: string;
  /** Outermost dimension first. */
  readonly shape: readonly number[];
  readonly file: FileReader;
  /** From the start of the file. */
  readonly offset: number;
  readonly bytes: number;
}

export interface Safetensors {
  readonly path: string;
  readonly entries: ReadonlyMap<string, SafetensorsEntry>;
  readonly files: readonly FileReader[];
  /** Distinct values of the metadata's `format`. */
  readonly headerFormats: readonly string[];
}

const LENGTH_BYTES = 8;
const METADATA_KEY = '__metadata__';

const valueBytes: ReadonlyMap<string, number> = new Map([
  ['F64', 8],
  ['I64', 8],
  ['U64', 8],
  ['F32', 4],
  ['I32', 4],
  ['U32', 4],
  ['F16', 2],
  ['BF16', 2],
  ['I16', 2],
  ['U16', 2],
  ['F8_E4M3', 1],
  ['F8_E5M2', 1],
  ['I8', 1],
  ['U8', 1],
  ['BOOL', 1],
]);

/** No tensor may occur twice. */
export function openSafetensors(path: string, filePaths: readonly string[]): Safetensors {
  const files: FileReader[] = [];
  try {
    const entries = new Map<string, SafetensorsEntry>();
    const headerFormats = new Set<string>();
    for (const filePath of filePaths) {
      const file = openFile(filePath);
      files.push(file);
      const header = readHeader(file);
      if (header.format !== undefined) headerFormats.add(header.format);
      for (const entry of header.entries) {
        const other = entries.get(entry.name);
        if (other !== undefined) throw jsonFault(filePath, entry.name, `is also in ${other.file.path}`);
        entries.set(entry.name, entry);
      }
    }
    return { path, entries, files, headerFormats: [...headerFormats] };
  } catch (error) {
    for (const file of files) file.close();
    throw error;
  }
}

/** Other types are an error only where they are read. */
export function floatWeights({ path, entries, files }: Safetensors): WeightSource {
  const tensors = new Map<string, StoredTensor>();
  for (const entry of entries.values()) {
    const tensor = floatTensor(entry);
    if (tensor !== undefined) tensors.set(entry.name, tensor);
  }
  return storedWeights(path, tensors, files, (name) => unusable(entries.get(name)));
}

function floatTensor(entry: SafetensorsEntry): StoredTensor | undefined {
  const type = floatType(entry.dtype);
  if (type === undefined || entry.bytes === 0) return undefined;
  const { name, shape, file, offset } = entry;
  return { name, type, shape, file, offset };
}

export function floatType(dtype: string): Extract<TensorType, 'F32' | 'F16' | 'BF16'> | undefined {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16' ? dtype : undefined;
}

function unusable(entry: SafetensorsEntry | undefined): ModelFileError | undefined {
  if (entry === undefined) return undefined;
  return new ModelFileError({
    file: entry.file.path,
    field: entry.name,
    problem:
      entry.bytes === 0 ? 'holds no values' : `has the dtype ${printable(entry.dtype)}, which cannot be used`,
    remedy: 'Use a model with weights in F32, F16, BF16, FP8 or MXFP4, an MLX-quantized one, or a GGUF.',
  });
}

interface Header {
  readonly entries: readonly SafetensorsEntry[];
  readonly format: string | undefined;
}

function readHeader(file: FileReader): Header {
  refuseLfsPointer(file);
  const headerBytes = readHeaderLength(file);
  const header = parseJsonObject(file.readAt(LENGTH_BYTES, headerBytes, 'header'), file.path, 'header');
  const entries = Object.entries(header)
    .filter(([name]) => name !== METADATA_KEY)
    .map(([name, value]) => readEntry(file, LENGTH_BYTES + headerBytes, name, value));
  refuseOverlap(
    file.path,
    entries.map(({ name, offset, bytes }) => ({ name, start: offset, end: offset + bytes })),
  );
  const metadata = header[METADATA_KEY];
  const format = isJsonObject(metadata) ? metadata.format : undefined;
  return { entries, format: typeof format === 'string' ? format : undefined };
}

export function dataStartOf(file: FileReader): number {
  return LENGTH_BYTES + readHeaderLength(file);
}

function readHeaderLength(file: FileReader): number {
  const length = file.readAt(0, LENGTH_BYTES, 'header length').readBigUInt64LE(0);
  const limit = Math.min(file.size - LENGTH_BYTES, MAX_JSON_BYTES);
  if (length <= BigInt(limit)) return Number(length);
  throw jsonFault(file.path, 'header length', `is ${length}, where at most ${limit} bytes are possible`);
}

function readEntry(file: FileReader, dataStart: number, name: string, value: unknown): SafetensorsEntry {
  if (!isJsonObject(value)) throw jsonFault(file.path, name, 'is not an object');
  const { dtype, shape, data_offsets: range } = value;
  if (typeof dtype !== 'string') throw jsonFault(file.path, name, 'has no dtype');
  if (!isSizes(shape)) throw jsonFault(file.path, name, 'has no valid shape');
  if (!isSizes(range) || range.length !== 2) throw jsonFault(file.path, name, 'has no valid data_offsets');

  const [start = 0, end = 0] = range;
  const dataBytes = file.size - dataStart;
  if (start > end || end > dataBytes) {
    throw jsonFault(file.path, name, `data_offsets [${start}, ${end}] leave the ${dataBytes} bytes of data`);
  }
  const expected = (valueBytes.get(dtype) ?? Number.NaN) * shape.reduce((product, size) => product * size, 1);
  if (valueBytes.has(dtype) && expected !== end - start) {
    const shown = `${dtype} [${shape.slice(0, 8).join(', ')}]`;
    throw jsonFault(file.path, name, `${shown} takes ${expected} bytes, data_offsets span ${end - start}`);
  }
  return { name, dtype, shape, file, offset: dataStart + start, bytes: end - start };
}

function isSizes(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

export function openSafetensorsIndex(indexPath: string): Safetensors {
  const shardOf = readWeightMap(indexPath);
  const directory = dirname(indexPath);
  const shardPaths = [...new Set(shardOf.values())].map((shard) => join(directory, shard));
  const model = openSafetensors(indexPath, shardPaths);
  for (const [name, shard] of shardOf) {
    const entry = model.entries.get(name);
    if (entry !== undefined && basename(entry.file.path) === shard) continue;
    for (const file of model.files) file.close();
    throw new ModelFileError({
      file: indexPath,
      field: name,
      problem: `is said to lie in ${shard}, but that file has no such tensor`,
      remedy: 'Index and shards belong to different versions: download all of them again.',
    });
  }
  return model;
}

function readWeightMap(indexPath: string): ReadonlyMap<string, string> {
  const { weight_map: weightMap } = readJsonFile(indexPath);
  if (!isJsonObject(weightMap)) throw jsonFault(indexPath, 'weight_map', 'is missing or not an object');
  const shardOf = new Map<string, string>();
  for (const [name, shard] of Object.entries(weightMap)) shardOf.set(name, shardName(indexPath, name, shard));
  if (shardOf.size === 0) throw jsonFault(indexPath, 'weight_map', 'names no tensor');
  return shardOf;
}

/** An index must not reach outside its folder. */
function shardName(indexPath: string, tensor: string, shard: unknown): string {
  if (typeof shard === 'string' && /^[^/\\\0]+\.safetensors$/.test(shard)) return shard;
  throw jsonFault(indexPath, tensor, 'its shard is not the name of a .safetensors file in the same folder');
}
