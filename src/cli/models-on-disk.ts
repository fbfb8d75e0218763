// The models that a server started here would know: the same settings, the same names.

import type { Command } from 'commander';
import { type ConfigInputs, processInputs, resolveConfig } from '../config.ts';
import { defaultModelFolder, embeddedModelPath } from '../pool/model-folder.ts';
import { findModels, type ModelOnDisk } from '../pool/model-registry.ts';

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
  const { model: paths } = resolveConfig(inputsOf(flags)).config;
  return findModels({ folder: modelFolder(flags), paths, lastPaths: [embeddedModelPath()] });
}

/** Commands have flags of their own, some of the same name as a setting. */
function inputsOf({ modelsFolder, config }: FolderFlags): ConfigInputs {
  return processInputs({ modelsFolder, config });
}
