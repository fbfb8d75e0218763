// Which models there are: those at paths the user gave, and those in the models folder. Every one is listed; one
// that cannot be served says why. Reads headers alone.

import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { buildSpec } from '../model/build-spec.ts';
import { openSpec } from '../model/open-spec.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { type ModelFiles, modelFilesAt, modelFilesUnder, openingPath } from './model-files.ts';
import {
  chooseNames,
  type ModelPath,
  parseModelPath,
  type WantedName,
  wantedNameOfPath,
  wantedNamesOfFolder,
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
  /** It has no head: it makes vectors and scores of texts, and writes none. */
  readonly headless?: true;
  /** It has a vision tower that can be run. */
  readonly sees?: true;
  /** Why it cannot be served; absent where its headers are sound and its architecture is known. */
  readonly problem?: string;
}

interface ModelPlaces {
  /** Need not exist. */
  readonly folder?: string;
  /** Each a path or `name=path`, or either taken apart. */
  readonly paths?: readonly (string | ModelPath)[];
  /** As `paths`, but listed last: their names give way to all others. */
  readonly lastPaths?: readonly string[];
}

/** What was found out about files that have not changed since, for those who look again and again. */
export type InspectedModels = Map<string, ModelOnDisk>;

/**
 * Those of `paths` first, in their order, then those of the folder, files before folders, then `lastPaths`; a file
 * that is in several of them comes once. Throws where two paths are given the same name.
 */
export function findModels(
  { folder, paths = [], lastPaths = [] }: ModelPlaces,
  inspected: InspectedModels = new Map(),
): ModelOnDisk[] {
  const first = pathsOnce(paths);
  const last = pathsOnce(lastPaths);
  refuseSharedNames([...first, ...last]);
  const known = new Set(first.map(({ path }) => realPath(path)));
  const isNew = (path: string) => {
    const real = realPath(path);
    return !known.has(real) && known.add(real);
  };
  const groups = [
    first.map(atPath),
    (folder === undefined ? [] : inFolder(resolve(folder))).filter(({ files }) => isNew(files.path)),
    last.filter(({ path }) => isNew(path)).map(atPath),
  ];
  const names = chooseNames(groups.map((group) => group.map(({ wanted }) => wanted))).flat();
  const models = groups.flat().map(({ files, problem }, at) => {
    const { path, sizeBytes, changedSeconds, unfinished } = files;
    const state = JSON.stringify([path, sizeBytes, changedSeconds, unfinished, problem]);
    const model = { ...(inspected.get(state) ?? inspect(files, problem)), name: names[at] as string };
    return { state, model };
  });
  inspected.clear();
  for (const { state, model } of models) inspected.set(state, model);
  return models.map(({ model }) => model);
}

interface FoundFiles {
  readonly files: ModelFiles;
  readonly wanted: WantedName;
  readonly problem?: string | undefined;
}

function atPath({ name, path, problem }: ModelPath): FoundFiles {
  return { files: modelFilesAt(path), wanted: wantedNameOfPath(path, name), problem };
}

function inFolder(folder: string): FoundFiles[] {
  const all = modelFilesUnder(folder);
  const wanted = wantedNamesOfFolder(folder, all);
  return all.map((files, at) => ({ files, wanted: wanted[at] as WantedName }));
}

function pathsOnce(paths: readonly (string | ModelPath)[]): ModelPath[] {
  const taken = paths.map((one) => (typeof one === 'string' ? parseModelPath(one) : one));
  const given = taken.map((one) => ({ ...one, path: openingPath(resolve(one.path)) }));
  return given.filter(
    ({ name, path }, at) => given.findIndex((other) => other.name === name && other.path === path) === at,
  );
}

function inspect(
  { path, kind, sizeBytes, changedSeconds, unfinished }: ModelFiles,
  problem: string | undefined,
): Omit<ModelOnDisk, 'name'> {
  const known = { path, createdSeconds: changedSeconds, sizeBytes };
  if (problem !== undefined) return { ...known, format: kind, problem };
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
      const { headless } = buildSpec(files);
      const sees = seesImages(path) ? ({ sees: true } as const) : {};
      return { ...known, format: files.format, ...(headless && { headless }), ...sees };
    } catch (error) {
      return { ...known, format: files.format, problem: problemOf(error) };
    } finally {
      files.weights.close();
    }
  } catch (error) {
    return { ...known, format: kind, problem: problemOf(error) };
  }
}

/** By its headers, and those of its projector file. */
export function seesImages(path: string, projectorPath?: string): boolean {
  const { spec, weights } = openSpec(path, { images: 'if-possible', projectorPath });
  weights.close();
  return spec.vision !== undefined;
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

/** The same for one file by different links. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
