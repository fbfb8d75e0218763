// The file of a store's key: made by whoever opens the store first, whole or not at all. One that cannot be used is put aside and
// replaced, for blocks can be computed again.

import { Buffer } from 'node:buffer';
import { createHash, randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { STORE_KEY_BYTES } from './sealing.ts';
import type { StoreFiles } from './store-files.ts';

export const KEY_FILE = 'store.key';

const TITLE = 'chairlift block store key 1';
const UNFINISHED = /^[0-9a-f]{16}$/;
const MOST_BYTES = 1024;
/** Others make or replace it at the same time; nobody does so again and again. */
const ATTEMPTS = 5;

/** `report`: told where a key was replaced, which makes blocks of before unreadable. */
export function openStoreKey(files: StoreFiles, path: string, report: (message: string) => void): Uint8Array {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const text = readText(files, path);
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
  const text = readText(files, path);
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
  const text = readText(files, path);
  return text === undefined ? undefined : parseKey(text);
}

function readText(files: StoreFiles, path: string): string | undefined {
  const file = files.open(path, 'read');
  if (file === undefined) return undefined;
  try {
    const bytes = Buffer.alloc(MOST_BYTES);
    return bytes.subarray(0, files.read(file, bytes, 0)).toString('latin1');
  } finally {
    files.close(file);
  }
}

/** Undefined where another made one meanwhile. */
function makeKey(
  files: StoreFiles,
  path: string,
  key: Uint8Array = randomBytes(STORE_KEY_BYTES),
): Uint8Array | undefined {
  files.makeFolder(dirname(path));
  const own = `${path}.${randomBytes(8).toString('hex')}`;
  const file = files.create(own);
  if (file === undefined) return undefined;
  try {
    files.write(file, [Buffer.from(formatKey(key))], 0);
    files.sync(file);
    if (!files.link(own, path)) return undefined;
    files.syncFolder(dirname(path));
    return key;
  } finally {
    files.close(file);
    files.remove(own);
  }
}

/** Left by processes that were killed while they made a key. One that is about to make one will find that there is one. */
function removeUnfinished(files: StoreFiles, path: string): void {
  const begin = `${basename(path)}.`;
  for (const name of files.list(dirname(path))) {
    if (!name.startsWith(begin) || !UNFINISHED.test(name.slice(begin.length))) continue;
    files.remove(join(dirname(path), name));
  }
}

function formatKey(key: Uint8Array): string {
  const digits = Buffer.from(key).toString('hex');
  return `${TITLE}\n${digits}\n${checksum(digits)}\n`;
}

function parseKey(text: string): Uint8Array | undefined {
  const [title, digits = '', sum] = text.split('\n');
  const isWhole = title === TITLE && digits.length === 2 * STORE_KEY_BYTES && sum === checksum(digits);
  return isWhole ? Buffer.from(digits, 'hex') : undefined;
}

function checksum(digits: string): string {
  return createHash('sha256').update(`${TITLE}\n${digits}`).digest('hex').slice(0, 16);
}
