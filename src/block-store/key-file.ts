// The file of a store's key: made by whoever opens the store first, whole or not at all. One that cannot be used is put aside and
// replaced, for blocks can be computed again.

import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { formatDigits, makeLasting, parseDigits, readLasting, removeUnfinished } from './lasting-file.ts';
import { STORE_KEY_BYTES } from './sealing.ts';
import type { StoreFiles } from './store-files.ts';

export const KEY_FILE = 'store.key';

const TITLE = 'chairlift block store key 1';
/** Others make or replace it at the same time; nobody does so again and again. */
const ATTEMPTS = 5;

/** `report`: told where a key was replaced, which makes blocks of before unreadable. */
export function openStoreKey(files: StoreFiles, path: string, report: (message: string) => void): Uint8Array {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const text = readLasting(files, path);
    const key = text === undefined ? makeKey(files, path) : parseKey(text);
    if (key !== undefined) {
      removeUnfinished(files, path);
      return key;
    }
    if (text === undefined) continue;
    report(
      `${path} is damaged: it is now ${path}.damaged, and what was sealed with it is not found any more`,
    );
    files.rename(path, `${path}.damaged`);
  }
  throw new Error(`${path} can be neither read nor made`);
}

/** Writes the key anew where its file was lost or damaged while the store is in use. Throws where there is another key by now. */
export function keepStoreKey(files: StoreFiles, path: string, key: Uint8Array): void {
  const text = readLasting(files, path);
  const found = text === undefined ? undefined : parseKey(text);
  if (found !== undefined && Buffer.compare(found, key) === 0) return;
  if (found === undefined) {
    if (text !== undefined) files.rename(path, `${path}.damaged`);
    if (makeKey(files, path, key) !== undefined) return;
  }
  throw new Error(
    `${path} holds another key than this process has used so far; start it again to use that one`,
  );
}

/** Undefined where there is none that can be used. */
export function readStoreKey(files: StoreFiles, path: string): Uint8Array | undefined {
  const text = readLasting(files, path);
  return text === undefined ? undefined : parseKey(text);
}

/** Undefined where another made one meanwhile. */
function makeKey(
  files: StoreFiles,
  path: string,
  key: Uint8Array = randomBytes(STORE_KEY_BYTES),
): Uint8Array | undefined {
  const text = formatDigits(TITLE, Buffer.from(key).toString('hex'));
  return makeLasting(files, path, text) ? key : undefined;
}

function parseKey(text: string): Uint8Array | undefined {
  const digits = parseDigits(TITLE, 2 * STORE_KEY_BYTES, text);
  return digits === undefined ? undefined : Buffer.from(digits, 'hex');
}
