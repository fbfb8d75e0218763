// Opens GGUF files, versions 2 and 3: one file, or all parts of a split one. It reads the header alone;
// tensors stay in the file until their rows are asked for.

import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { type FileReader, openFile, refuseLfsPointer } from './file-reader.ts';
import { GgufCursor } from './gguf-cursor.ts';
import { ENTRY_MIN_BYTES, type GgufValue, readMetadata } from './gguf-metadata.ts';
import { readTensors, TENSOR_MIN_BYTES } from './gguf-tensors.ts';
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

type Metadata = ReadonlyMap<string, GgufValue>;

const PART_NAME = /-(?<part>\d{5})-of-(?<parts>\d{5})\.gguf$/;
const DOWNLOAD_ALL = 'Download all parts of the same model into one folder.';

/** Paths of all parts, the first one first, of the model that the file at `path` is part of; undefined where it is whole. */
function partPaths(path: string, metadata: Metadata): readonly string[] | undefined {
  const count = metadata.get('split.count');
  if (count === undefined || count === 0 || count === 1) return undefined;
  const name = PART_NAME.exec(basename(path))?.groups;
  if (name === undefined || Number(name.parts) !== count) {
    throw splitFault(
      path,
      'split.count',
      `is ${count}, which the file’s name does not say`,
      'Keep the names as downloaded: name-00001-of-0000N.gguf.',
    );
  }
  const stem = path.slice(0, path.length - `-${name.part}-of-${name.parts}.gguf`.length);
  const paths = Array.from(
    { length: count },
    (_, index) => `${stem}-${String(index + 1).padStart(5, '0')}-of-${name.parts}.gguf`,
  );
  const missing = paths.findIndex((partPath) => !existsSync(partPath));
  if (missing === -1) return paths;
  throw splitFault(
    paths[missing] as string,
    'path',
    `does not exist: part ${missing + 1} of ${count} is missing`,
    DOWNLOAD_ALL,
  );
}

/** Refuses a part that is not number `index`, counted from 0, of the model whose first part says `first`. */
function checkPart(path: string, metadata: Metadata, index: number, first: Metadata): void {
  const wanted = new Map([
    ['split.no', index],
    ['split.count', first.get('split.count')],
    ['split.tensors.count', first.get('split.tensors.count')],
  ]);
  for (const [field, value] of wanted) {
    if (metadata.get(field) === value) continue;
    throw splitFault(path, field, `is not that of part ${index + 1} of this model`, DOWNLOAD_ALL);
  }
}

function checkTensorCount(path: string, metadata: Metadata, found: number): void {
  const announced = metadata.get('split.tensors.count');
  if (announced === undefined || announced === found) return;
  const problem = `announces ${announced} tensors, but the parts hold ${found}`;
  throw splitFault(path, 'split.tensors.count', problem, DOWNLOAD_ALL);
}

function sharedTensor(path: string, name: string): ModelFileError {
  return splitFault(path, name, 'another part has a tensor of this name', DOWNLOAD_ALL);
}

function splitFault(file: string, field: string, problem: string, remedy: string): ModelFileError {
  return new ModelFileError({ file, field, problem, remedy });
}
