// Removes a model's files from the models folder, and folders that are empty then. Touches nothing outside of it, nor
// other models in the same folder.

import { readdir, rm, rmdir } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { isProjectorName } from '../weights/open-model.ts';
import { belongsToSafetensors } from './choose-files.ts';
import { filesOfGguf, isModule } from './model-files.ts';

/** Whether the model at this path lies in the folder. */
export function liesIn(folder: string, path: string): boolean {
  const inside = relative(folder, path);
  return inside !== '' && !inside.startsWith('..') && !isAbsolute(inside);
}

/** `path` is what opens the model: a GGUF, of a split one the first part, or a folder. */
export async function removeModel(folder: string, path: string): Promise<void> {
  if (!liesIn(folder, path)) throw new Error(`${path} is not in ${folder}`);
  const isGguf = path.endsWith('.gguf');
  const home = isGguf || path.endsWith('.safetensors') ? dirname(path) : path;
  const names = isGguf ? filesOfGguf(path).map((file) => basename(file)) : await filesOfFolder(home);
  for (const name of names) await rm(join(home, name), { force: true, recursive: isModule(name) });
  if (isGguf) await removeProjectors(home);
  for (let empty = home; liesIn(folder, empty); empty = dirname(empty)) {
    if ((await readdir(empty)).length > 0) return;
    await rmdir(empty);
  }
}

/** Projectors of images belong to the models beside them: once there are none, to nobody. */
async function removeProjectors(home: string): Promise<void> {
  const ggufs = (await readdir(home)).filter((name) => /\.gguf(\.part)?$/.test(name));
  const isProjector = (name: string) => isProjectorName(name.replace(/\.part$/, ''));
  if (!ggufs.every(isProjector)) return;
  for (const name of ggufs) await rm(join(home, name), { force: true });
}

async function filesOfFolder(home: string): Promise<string[]> {
  const names = await readdir(home);
  const hasModules = names.includes('modules.json');
  return names.filter((name) => belongsToSafetensors(name) || (hasModules && isModule(name)));
}
