// What a model's folder lacks, by the names of its files alone: links to nothing, shards that an index or their own numbers
// promise. A download by another program that has not ended looks like this.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { belongsToSafetensors } from './choose-files.ts';
import { filesOfGguf, type ModelFiles } from './model-files.ts';

const INDEX = 'model.safetensors.index.json';
const PART_NAME = /^(.*)-(\d{5})-of-(\d{5})(\.(?:gguf|safetensors))$/;

/** Names of files that are part of the model and not there. */
export function missingFiles({ path, kind }: Pick<ModelFiles, 'path' | 'kind'>): string[] {
  const folder = kind === 'gguf' || path.endsWith('.safetensors') ? dirname(path) : path;
  const names = namesOf(folder, path, kind);
  const isThere = (name: string) => existsSync(join(folder, name));
  const weights = names.filter((name) => /\.(gguf|safetensors)$/.test(name));
  // Some repositories hold the weights twice, in one file and in shards: one file is enough.
  const hasSingle = kind === 'safetensors' && weights.includes('model.safetensors');
  const promised = hasSingle ? [] : [...indexed(join(folder, INDEX)), ...weights.flatMap(allParts)];
  const wanted = hasSingle ? names.filter((name) => !PART_NAME.test(name)) : [...names, ...promised];
  return [...new Set(wanted)].filter((name) => !isThere(name)).sort();
}

function namesOf(folder: string, path: string, kind: ModelFiles['kind']): string[] {
  if (kind === 'gguf') return filesOfGguf(path).map((file) => basename(file));
  try {
    return readdirSync(folder).filter((name) => belongsToSafetensors(name));
  } catch {
    return [];
  }
}

/** The shards that an index names. One that cannot be read is refused when the model is opened. */
function indexed(index: string): string[] {
  try {
    const { weight_map: map } = JSON.parse(readFileSync(index, 'utf8'));
    return Object.values(map ?? {}).filter((name): name is string => typeof name === 'string');
  } catch {
    return [];
  }
}

/** All parts that the name of one part implies. */
function allParts(name: string): string[] {
  const [, stem, , count, ending] = PART_NAME.exec(name) ?? [];
  if (stem === undefined) return [];
  return Array.from(
    { length: Number(count) },
    (_, at) => `${stem}-${String(at + 1).padStart(5, '0')}-of-${count}${ending}`,
  );
}
