// Opens GGUF files, versions 2 and 3: one file, or all parts of a split one. It reads the header alone;
// tensors stay in the file until their rows are asked for.

import { basename } from 'node:path';
import { type FileReader, openFile } from './file-reader.ts';
import { GgufCursor } from './gguf-cursor.ts';
import { readTensors, TENSOR_MIN_BYTES } from './gguf-tensors.ts';
import { ENTRY_MIN_BYTES, type GgufValue, readMetadata } from './gguf-values.ts';
import { refuseLfsPointer } from './lfs-pointer.ts';
import { ModelFileError } from './model-file-error.ts';
import { type StoredTensor, storedWeights } from './stored-weights.ts';
import type { WeightSource } from './weight-source.ts';

export interface GgufFile {
  readonly format: 'gguf';
  readonly path: string;
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly weights: WeightSource;
}

interface GgufPart {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

const MAGIC = 'GGUF';
// Far above any real model, low enough that a table of them cannot exhaust the heap.
const MAX_METADATA_KEYS = 2 ** 16;
const MAX_TENSORS = 2 ** 18;
const SPLIT_NAME = /^(?<stem>.*)-(?<part>\d{5})-of-(?<parts>\d{5})\.gguf$/;

/** Opens a GGUF file; of a split one, give the first part. */
export function openGguf(path: string): GgufFile {
  const files: FileReader[] = [];
  const open = (partPath: string): GgufPart => {
    const file = openFile(partPath);
    files.push(file);
    return readPart(file);
  };
  try {
    const first = open(path);
    const tensors = new Map(first.tensors);
    for (const [index, partPath] of otherParts(path, first.metadata).entries()) {
      addPart(tensors, open(partPath), partPath, index + 1, first.metadata);
    }
    checkSplitTotal(path, first.metadata, tensors.size);
    const weights = storedWeights(path, tensors, files);
    return { format: 'gguf', path, version: first.version, metadata: first.metadata, weights };
  } catch (error) {
    for (const file of files) file.close();
    throw error;
  }
}

function readPart(file: FileReader): GgufPart {
  refuseLfsPointer(file);
  const cursor = new GgufCursor(file);
  const version = readVersion(cursor);
  const tensorCount = readCount(cursor, TENSOR_MIN_BYTES, MAX_TENSORS, 'tensor count');
  const keyCount = readCount(cursor, ENTRY_MIN_BYTES, MAX_METADATA_KEYS, 'metadata count');
  const metadata = readMetadata(cursor, keyCount);
  return { version, metadata, tensors: readTensors(cursor, file, tensorCount, metadata) };
}

function readVersion(cursor: GgufCursor): number {
  const magic = Array.from({ length: 4 }, () => String.fromCharCode(cursor.uint8('magic'))).join('');
  if (magic !== MAGIC) {
    throw cursor.fault(
      'magic',
      'the file does not begin with "GGUF"',
      'Give a GGUF file, a .safetensors file or a model’s folder.',
    );
  }
  const version = cursor.uint32('version');
  if (version === 2 || version === 3) return version;
  if (version === 1) {
    const remedy = 'Download a newer file of the model, or convert the original again with current tools.';
    throw cursor.fault('version', 'GGUF version 1 is not supported', remedy);
  }
  if ((version & 0xffff) === 0) {
    const remedy = 'Use the little-endian file of the model, or convert it for this machine.';
    throw cursor.fault('version', 'the file is big-endian', remedy);
  }
  throw cursor.fault(
    'version',
    `GGUF version ${version} is not known`,
    'Use a file of version 2 or 3, or a newer Chairlift.',
  );
}

function readCount(cursor: GgufCursor, itemBytes: number, limit: number, field: string): number {
  const count = cursor.count(itemBytes, field);
  if (count <= limit) return count;
  throw cursor.fault(field, `is ${count}, above the limit of ${limit}`);
}

/** Paths of the parts after the first; none where the file is whole. */
function otherParts(path: string, metadata: ReadonlyMap<string, GgufValue>): readonly string[] {
  const count = metadata.get('split.count');
  if (count === undefined || count === 0 || count === 1) return [];
  const name = SPLIT_NAME.exec(basename(path))?.groups;
  if (name === undefined || Number(name.parts) !== count) {
    throw splitFault(
      path,
      'split.count',
      `is ${count}, which the file’s name does not say`,
      'Keep the names as downloaded: name-00001-of-0000N.gguf.',
    );
  }
  if (metadata.get('split.no') !== 0 || Number(name.part) !== 1) {
    throw splitFault(
      path,
      'split.no',
      'is not the first part',
      'Give the path that ends in -00001-of-….gguf.',
    );
  }
  const stem = path.slice(0, path.length - `-00001-of-${name.parts}.gguf`.length);
  return Array.from(
    { length: count - 1 },
    (_, index) => `${stem}-${String(index + 2).padStart(5, '0')}-of-${name.parts}.gguf`,
  );
}

function addPart(
  tensors: Map<string, StoredTensor>,
  part: GgufPart,
  path: string,
  index: number,
  first: ReadonlyMap<string, GgufValue>,
): void {
  const remedy = 'Download all parts of the same model again.';
  if (
    part.metadata.get('split.no') !== index ||
    part.metadata.get('split.count') !== first.get('split.count')
  ) {
    throw splitFault(path, 'split.no', `is not part ${index + 1} of this model`, remedy);
  }
  for (const [name, tensor] of part.tensors) {
    if (tensors.has(name)) throw splitFault(path, name, 'another part has a tensor of this name', remedy);
    tensors.set(name, tensor);
  }
}

function checkSplitTotal(path: string, metadata: ReadonlyMap<string, GgufValue>, found: number): void {
  const announced = metadata.get('split.tensors.count');
  if (announced === undefined || announced === found) return;
  throw splitFault(
    path,
    'split.tensors.count',
    `announces ${announced} tensors, but the parts hold ${found}`,
    'Download all parts of the same model again.',
  );
}

function splitFault(file: string, field: string, problem: string, remedy: string): ModelFileError {
  return new ModelFileError({ file, field, problem, remedy });
}
