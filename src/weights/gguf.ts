// Opens GGUF files, versions 2 and 3: one file, or all parts of a split one. It reads the header alone;
// tensors stay in the file until their rows are asked for.

import { type FileReader, openFile } from './file-reader.ts';
import { GgufCursor } from './gguf-cursor.ts';
import { checkPart, checkTensorCount, partPaths, sharedTensor } from './gguf-split.ts';
import { readTensors, TENSOR_MIN_BYTES } from './gguf-tensors.ts';
import { ENTRY_MIN_BYTES, type GgufValue, readMetadata } from './gguf-values.ts';
import { refuseLfsPointer } from './lfs-pointer.ts';
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

/** Opens a GGUF file; of a split one any part opens all. */
export function openGguf(path: string): GgufFile {
  const files: FileReader[] = [];
  const open = (partPath: string): GgufPart => {
    const file = openFile(partPath);
    files.push(file);
    return readPart(file);
  };
  try {
    const given = open(path);
    const paths = partPaths(path, given.metadata) ?? [path];
    const parts = paths.map((partPath) => (partPath === path ? given : open(partPath)));
    const [firstPath, first] = [paths[0] as string, parts[0] as GgufPart];
    const tensors = new Map<string, StoredTensor>();
    for (const [index, part] of parts.entries()) {
      const partPath = paths[index] as string;
      if (parts.length > 1) checkPart(partPath, part.metadata, index, first.metadata);
      for (const [name, tensor] of part.tensors) {
        if (tensors.has(name)) throw sharedTensor(partPath, name);
        tensors.set(name, tensor);
      }
    }
    checkTensorCount(firstPath, first.metadata, tensors.size);
    const weights = storedWeights(firstPath, tensors, files);
    return { format: 'gguf', path: firstPath, version: first.version, metadata: first.metadata, weights };
  } catch (error) {
    for (const file of files) file.close();
    throw error;
  }
}

/** Of one file, as far as it can be read on its own: where its tensors lie. */
export function tensorsOfPart(file: FileReader): ReadonlyMap<string, StoredTensor> {
  return readPart(file).tensors;
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
