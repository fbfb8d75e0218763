// Which models there are: those at paths the user gave, and those in the models folder. Every one is listed; one
// that cannot be served says why. Reads headers alone.

import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { buildSpec } from '../model/build-spec.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { type ModelFiles, modelFilesAt, modelFilesUnder } from './model-files.ts';
import {
  chooseNames,
  type ModelPath,
  type NameWish,
  parseModelPath,
  wishesOfFolder,
  wishOfPath,
} from './model-names.ts';

export type ModelFormat = 'gguf' | 'safetensors' | 'mlx';

export interface ModelOnDisk {
  /** No two models have the same. */
  readonly name: string;
  /** Absolute: a GGUF (of a split one, the first part), a safetensors file or a folder. */
  readonly path: string;
  /** Seconds since 1970 when one of its files was last changed. */
  readonly createdSeconds: number;
  readonly sizeBytes: number;
  readonly format: ModelFormat;
  /** Why it cannot be served; absent where its headers are sound and its architecture is known. */
  readonly problem?: string;
}

export interface ModelPlaces {
  /** Need not exist. */
  readonly folder?: string;
  /** Each a path or `name=path`. */
  readonly paths?: readonly string[];
}

/**
 * Those of `paths` first, in their order, then those of the folder, files before folders, without those
 * already given. Throws where two paths are given the same name.
 */
export function findModels({ folder, paths = [] }: ModelPlaces): ModelOnDisk[] {
  const given = pathsOnce(paths);
  refuseSharedNames(given);
  const inFolder = folder === undefined ? [] : filesAndWishes(resolve(folder));
  const known = new Set(given.map(({ path }) => realPath(path)));
  const found = inFolder.filter(({ files }) => {
    const path = realPath(files.path);
    return !known.has(path) && known.add(path);
  });
  const names = chooseNames([
    given.map(({ name, path }) => wishOfPath(path, name)),
    found.map(({ wish }) => wish),
  ]);
  const files = [...given.map(({ path }) => modelFilesAt(path)), ...found.map((one) => one.files)];
  return files.map((one, at) => inspect(one, names.flat()[at] as string));
}

function filesAndWishes(folder: string): { readonly files: ModelFiles; readonly wish: NameWish }[] {
  const all = modelFilesUnder(folder);
  const wishes = wishesOfFolder(folder, all);
  return all.map((files, at) => ({ files, wish: wishes[at] as NameWish }));
}

function pathsOnce(paths: readonly string[]): ModelPath[] {
  const given = paths.map(parseModelPath).map((one) => ({ ...one, path: resolve(one.path) }));
  return given.filter(
    ({ name, path }, at) => given.findIndex((other) => other.name === name && other.path === path) === at,
  );
}

function inspect(
  { path, kind, sizeBytes, changedSeconds, unfinished }: ModelFiles,
  name: string,
): ModelOnDisk {
  const known = { name, path, createdSeconds: changedSeconds, sizeBytes };
  if (unfinished) {
    return {
      ...known,
      format: kind,
      problem: `${path}: its download has not ended. Pull it again to go on.`,
    };
  }
  try {
    const files = openModelFiles(path);
    try {
      buildSpec(files);
      return { ...known, format: files.format };
    } catch (error) {
      return { ...known, format: files.format, problem: problemOf(error) };
    } finally {
      files.weights.close();
    }
  } catch (error) {
    return { ...known, format: kind, problem: problemOf(error) };
  }
}

function problemOf(error: unknown): string {
  if (error instanceof ModelFileError) return error.message;
  throw error;
}

function refuseSharedNames(models: readonly ModelPath[]): void {
  const pathOf = new Map<string, string>();
  for (const { name, path } of models) {
    if (name === undefined) continue;
    const other = pathOf.get(name);
    if (other !== undefined) {
      const problem = `'${name}' is also the name of ${other}`;
      throw new ModelFileError({
        file: path,
        field: 'name',
        problem,
        remedy: 'Give each model its own name.',
      });
    }
    pathOf.set(name, path);
  }
}

/** Tells the same file by different links. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
