// What a store's folder is called wherever it is mounted: a random number in a file of it. Two mounts of one storage have the same,
// and equal paths of two machines do not.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { formatDigits, makeLasting, parseDigits, readLasting, removeUnfinished } from './lasting-file.ts';
import type { StoreFiles } from './store-files.ts';

export const ID_FILE = 'store.id';

const TITLE = 'chairlift block store id 1';
const ID_DIGITS = 32;
/** Others make or replace it at the same time; nobody does so again and again. */
const ATTEMPTS = 5;

/** Made where it is absent, and anew where it is damaged. Throws where it can be neither read nor made. */
export function openFolderId(files: StoreFiles, folder: string): string {
  const path = join(folder, ID_FILE);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const text = readLasting(files, path);
    const id = text === undefined ? undefined : parseDigits(TITLE, ID_DIGITS, text);
    if (id !== undefined) {
      removeUnfinished(files, path);
      return id;
    }
    if (text !== undefined) files.rename(path, `${path}.damaged`);
    makeLasting(files, path, formatDigits(TITLE, randomBytes(ID_DIGITS / 2).toString('hex')));
  }
  throw new Error(`${path} can be neither read nor made`);
}

/** Writes it anew where its file was lost while the store is in use, so that those who come later say the same of the folder. */
export function keepFolderId(files: StoreFiles, folder: string, id: string): void {
  const path = join(folder, ID_FILE);
  if (readLasting(files, path) === undefined) makeLasting(files, path, formatDigits(TITLE, id));
}
