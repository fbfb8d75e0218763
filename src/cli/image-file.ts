// Images that a file of messages names: files beside it, and `data:` URLs.

import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { messageOf } from '../runtime/error-message.ts';
import { UsageError } from './usage-error.ts';

export function imageFile(directory: string): (url: string) => Promise<Uint8Array> {
  return async (url) => {
    if (url.startsWith('data:')) return dataUrlBytes(url);
    if (/^[a-z]+:\/\//i.test(url)) {
      throw new UsageError(
        `--messages: ${url.slice(0, 80)} is not read; give the path of a file, or a data: URL`,
      );
    }
    try {
      return await readFile(resolve(directory, url));
    } catch (error) {
      throw new UsageError(`--messages: ${url}: ${messageOf(error)}`);
    }
  };
}

function dataUrlBytes(url: string): Uint8Array {
  const [, data] = /^data:[^,]*;base64,([a-z0-9+/=\s]*)$/i.exec(url) ?? [];
  if (data === undefined) throw new UsageError('--messages: a data: URL must be of base64');
  return Buffer.from(data, 'base64');
}
