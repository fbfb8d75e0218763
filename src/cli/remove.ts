// `chairlift rm MODEL...`: removes models from the models folder. What other programs have is never touched.

import { resolve } from 'node:path';
import type { Command } from 'commander';
import { referenceIn } from '../pool/model-reference.ts';
import type { ModelOnDisk } from '../pool/model-registry.ts';
import { isFrom } from '../pool/named-models.ts';
import { liesIn, removeModel } from '../pool/remove-model.ts';
import { formatBytes } from '../text/byte-size.ts';
import { addFolderOptions, type FolderFlags, homesOf, modelFolder, modelsOnDisk } from './models-on-disk.ts';
import { UsageError } from './usage-error.ts';

export function addRemove(program: Command): void {
  const command = program
    .command('rm')
    .description('remove models from the models folder')
    .argument('<model...>', 'a name that list shows, or the name it was pulled by');
  addFolderOptions(command).action(remove);
}

async function remove(names: readonly string[], flags: FolderFlags): Promise<void> {
  const folder = resolve(modelFolder(flags));
  // All are found before the first is removed.
  const models = names.map((name) => find(name, folder, flags));
  for (const { name, path, sizeBytes } of models) {
    await removeModel(folder, path);
    process.stdout.write(`removed ${name}, ${formatBytes(sizeBytes)}\n`);
  }
}

function find(text: string, folder: string, flags: FolderFlags): ModelOnDisk {
  const all = modelsOnDisk(flags);
  const reference = referenceIn(text, homesOf(flags).shortNames);
  const named = all.filter(({ name }) => name === text);
  const found =
    named.length > 0 || reference === undefined ? named : all.filter(({ path }) => isFrom(reference, path));
  const [model] = found;
  if (model === undefined) {
    throw new UsageError(
      `there is no model '${text}' in ${folder}; 'chairlift list' shows those that are there`,
    );
  }
  if (found.length > 1) {
    throw new UsageError(
      `'${text}' names several models; give one of ${found.map(({ name }) => name).join(', ')}`,
    );
  }
  if (!liesIn(folder, model.path)) {
    throw new UsageError(`${model.path} is not in ${folder}, and only what lies there is removed`);
  }
  return model;
}
