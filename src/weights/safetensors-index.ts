// A sharded model's index: which tensor lies in which file of the folder.

import { basename, dirname, join } from 'node:path';
import { isJsonObject, jsonFault, readJsonFile } from './json-file.ts';
import { ModelFileError } from './model-file-error.ts';
import { openSafetensors, type Safetensors } from './safetensors.ts';

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

/** A shard is a plain file name: an index must not reach outside its folder, nor name another index. */
function shardName(indexPath: string, tensor: string, shard: unknown): string {
  if (typeof shard === 'string' && /^[^/\\\0]+\.safetensors$/.test(shard)) return shard;
  throw jsonFault(indexPath, tensor, 'its shard is not the name of a .safetensors file in the same folder');
}
