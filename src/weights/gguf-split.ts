// A GGUF split into several files: which belong together, and whether they do. Each part says its number, how many
// there are, and how many tensors all have; the first also holds the model's metadata.

import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import type { GgufValue } from './gguf-values.ts';
import { ModelFileError } from './model-file-error.ts';

type Metadata = ReadonlyMap<string, GgufValue>;

const PART_NAME = /-(?<part>\d{5})-of-(?<parts>\d{5})\.gguf$/;
const DOWNLOAD_ALL = 'Download all parts of the same model into one folder.';

/** Paths of all parts, the first one first, of the model that the file at `path` is part of; undefined where it is whole. */
export function partPaths(path: string, metadata: Metadata): readonly string[] | undefined {
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
export function checkPart(path: string, metadata: Metadata, index: number, first: Metadata): void {
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

export function checkTensorCount(path: string, metadata: Metadata, found: number): void {
  const announced = metadata.get('split.tensors.count');
  if (announced === undefined || announced === found) return;
  const problem = `announces ${announced} tensors, but the parts hold ${found}`;
  throw splitFault(path, 'split.tensors.count', problem, DOWNLOAD_ALL);
}

export function sharedTensor(path: string, name: string): ModelFileError {
  return splitFault(path, name, 'another part has a tensor of this name', DOWNLOAD_ALL);
}

function splitFault(file: string, field: string, problem: string, remedy: string): ModelFileError {
  return new ModelFileError({ file, field, problem, remedy });
}
