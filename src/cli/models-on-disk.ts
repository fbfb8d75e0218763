// The models that a server started here would know: the same settings, the same names.

import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { shortNamesOf } from '../app/pool-settings.ts';
import { type ConfigInputs, processInputs, resolveConfig } from '../config.ts';
import { defaultModelFolder, embeddedModelPath, type ModelHomes, modelHomes } from '../pool/model-homes.ts';
import { findModels, type ModelOnDisk } from '../pool/model-registry.ts';
import {
  givenModel,
  type LocatedModel,
  locateModel,
  type ModelSource,
  otherModels,
} from '../pool/named-models.ts';
import { UsageError } from './usage-error.ts';

export const MODEL_MEANING =
  'a .gguf file, a .safetensors file, a model folder, or a name: one that list shows, owner/repo, or a short name';

export interface FolderFlags {
  readonly modelsFolder?: string;
  readonly config?: string;
}

export function addFolderOptions(command: Command): Command {
  return command
    .option('--models-folder <folder>', 'where models lie; ~/.chairlift/models where unset')
    .option('--config <file>', 'config file; ~/.chairlift/config.json where it exists');
}

export function modelFolder(flags: FolderFlags): string {
  const inputs = inputsOf(flags);
  return resolveConfig(inputs).config.modelsFolder ?? defaultModelFolder(inputs.home);
}

export function modelsOnDisk(flags: FolderFlags): ModelOnDisk[] {
  const { model } = resolveConfig(inputsOf(flags)).config;
  const homes = homesOf(flags);
  const paths = model.map((text) => givenModel(text, homes));
  return findModels({ folder: modelFolder(flags), paths, lastPaths: [embeddedModelPath()] });
}

export interface OtherModel extends ModelOnDisk {
  readonly source: ModelSource;
  readonly incomplete: boolean;
}

/** Models of other programs that a server started here would not know. */
export function modelsOfOthers(flags: FolderFlags, known: readonly ModelOnDisk[]): OtherModel[] {
  const paths = new Set(known.map(({ path }) => path));
  return otherModels(homesOf(flags))
    .filter(({ path }) => !paths.has(path))
    .flatMap(({ name, path, source, incomplete }) => {
      const given = { name, path, ...(incomplete === undefined ? {} : { problem: incomplete }) };
      return findModels({ paths: [given] }).map((model) => ({
        ...model,
        source,
        incomplete: incomplete !== undefined,
      }));
    });
}

/** The path of a model: a path that exists, a name that `list` shows, or a name of the hub. */
export function findModel(text: string, flags: FolderFlags): LocatedModel {
  if (existsSync(text)) return { path: text };
  const listed = modelsOnDisk(flags).find(({ name }) => name === text);
  return listed ?? locateModel(text, homesOf(flags));
}

/** Throws where it is not on this machine, with what to do; what can only be a path stays as it is. */
export function modelPath(text: string, flags: FolderFlags = {}): string {
  const { path, problem } = findModel(text, flags);
  if (problem !== undefined) throw new UsageError(problem);
  if (!existsSync(path) && !/[\\/]|\.(gguf|safetensors)$/.test(text)) throw noSuchModel(text);
  return path;
}

export function noSuchModel(text: string): UsageError {
  const hub = 'hf:owner/repo brings one from the Hugging Face hub';
  return new UsageError(
    `there is no file and no model '${text}'; 'chairlift list' shows the models here, and ${hub}`,
  );
}

export function parseModel(text: string): string {
  return modelPath(text);
}

export function homesOf(flags: FolderFlags): ModelHomes {
  const inputs = inputsOf(flags);
  return modelHomes(modelFolder(flags), inputs, shortNamesOf(resolveConfig(inputs).config));
}

/** Command flags may have the name of a setting. */
function inputsOf({ modelsFolder, config }: FolderFlags): ConfigInputs {
  return processInputs({ modelsFolder, config });
}
