// Small files that a store keeps: made once, whole or not at all, by whichever process comes first.

import { Buffer } from 'node:buffer';
import { createHash, randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import type { StoreFiles } from './store-files.ts';

const UNFINISHED = /^[0-9a-f]{16}$/;
const MOST_BYTES = 1024;

/** Undefined where there is none. */
export function readLasting(files: StoreFiles, path: string): string | undefined {
  const file = files.open(path, 'read');
  if (file === undefined) return undefined;
  try {
    const bytes = Buffer.alloc(MOST_BYTES);
    return bytes.subarray(0, files.read(file, bytes, 0)).toString('latin1');
  } finally {
    files.close(file);
  }
}

/** False where another process made it meanwhile. */
export function makeLasting(files: StoreFiles, path: string, text: string): boolean {
  files.makeFolder(dirname(path));
  const own = `${path}.${randomBytes(8).toString('hex')}`;
  const file = files.create(own);
  if (file === undefined) return false;
  try {
    files.write(file, [Buffer.from(text)], 0);
    files.sync(file);
    if (!files.link(own, path)) return false;
    files.syncFolder(dirname(path));
    return true;
  } finally {
    files.close(file);
    files.remove(own);
  }
}

/** Left by processes that were killed while they made it. One that is about to make it will find that there is one. */
export function removeUnfinished(files: StoreFiles, path: string): void {
  const begin = `${basename(path)}.`;
  for (const name of files.list(dirname(path))) {
    if (!name.startsWith(begin) || !UNFINISHED.test(name.slice(begin.length))) continue;
    files.remove(join(dirname(path), name));
  }
}

/** Digits under a title, with a sum that shows damage. */
export function formatDigits(title: string, digits: string): string {
  return `${title}\n${digits}\n${checksum(title, digits)}\n`;
}

/** Undefined where they are not whole. */
export function parseDigits(title: string, count: number, text: string): string | undefined {
  const [first, digits = '', sum] = text.split('\n');
  const isWhole = first === title && digits.length === count && sum === checksum(title, digits);
  return isWhole ? digits : undefined;
}

function checksum(title: string, digits: string): string {
  return createHash('sha256').update(`${title}\n${digits}`).digest('hex').slice(0, 16);
}
