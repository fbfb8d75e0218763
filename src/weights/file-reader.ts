// A bounded random-access reader of one file. It refuses reads outside the file, so that no other code has to trust
// an offset.

import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { ModelFileError } from './model-file-error.ts';

// A read call moves less than 2 GiB.
const MAX_READ_BYTES = 2 ** 30;

export interface FileReader {
  readonly path: string;
  readonly size: number;
  /** `field` names what is read, for errors. */
  readInto(offset: number, into: Uint8Array, field: string): void;
  readAt(offset: number, length: number, field: string): Buffer;
  close(): void;
}

export function openFile(path: string): FileReader {
  const descriptor = openRegularFile(path);
  const size = fstatSync(descriptor).size;
  let open = true;

  const checkRange = (offset: number, length: number, field: string): void => {
    if (!open) throw new Error(`${path} was read after it was closed`);
    const inside = offset >= 0 && length >= 0 && offset + length <= size;
    if (Number.isSafeInteger(offset) && Number.isSafeInteger(length) && inside) return;
    throw new ModelFileError({
      file: path,
      field,
      problem: `needs ${length} bytes at offset ${offset}, but the file has ${size} bytes`,
      remedy: 'The file is truncated or damaged: download or convert it again.',
    });
  };

  const readInto = (offset: number, into: Uint8Array, field: string): void => {
    checkRange(offset, into.length, field);
    let done = 0;
    while (done < into.length) {
      const wanted = Math.min(into.length - done, MAX_READ_BYTES);
      const got = readSome(path, descriptor, into, done, wanted, offset + done);
      if (got === 0) throw shrunkWhileReading(path, field);
      done += got;
    }
  };

  return {
    path,
    size,
    readInto,
    readAt(offset, length, field) {
      checkRange(offset, length, field);
      const buffer = Buffer.allocUnsafeSlow(length);
      readInto(offset, buffer, field);
      return buffer;
    },
    close() {
      if (open) closeSync(descriptor);
      open = false;
    },
  };
}

function readSome(
  path: string,
  descriptor: number,
  into: Uint8Array,
  at: number,
  length: number,
  offset: number,
): number {
  try {
    return readSync(descriptor, into, at, length, offset);
  } catch (error) {
    throw unreadableFile(path, error);
  }
}

function openRegularFile(path: string): number {
  try {
    // Opening a pipe would wait for a writer for ever.
    if (statSync(path).isFile()) return openSync(path, 'r');
  } catch (error) {
    throw unreadableFile(path, error);
  }
  throw new ModelFileError({
    file: path,
    field: 'path',
    problem: 'is not a regular file',
    remedy: 'Give the path of a model file.',
  });
}

export function unreadableFile(path: string, error: unknown): ModelFileError {
  const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
  const missing = code === 'ENOENT' || code === 'ENOTDIR';
  return new ModelFileError({
    file: path,
    field: 'path',
    problem: missing ? 'does not exist' : `cannot be read (${code})`,
    remedy: missing
      ? 'Check the path, or download the missing file.'
      : 'Check the permissions of the file and the disk it is on.',
  });
}

function shrunkWhileReading(path: string, field: string): ModelFileError {
  return new ModelFileError({
    file: path,
    field,
    problem: 'the file became shorter while it was read',
    remedy: 'Leave model files alone while they are in use; load the model again.',
  });
}

const POINTER_START = 'version https://git-lfs';

export function refuseLfsPointer(file: FileReader): void {
  if (file.size < POINTER_START.length) return;
  if (file.readAt(0, POINTER_START.length, 'start').toString('latin1') !== POINTER_START) return;
  throw new ModelFileError({
    file: file.path,
    field: 'start',
    problem: 'is a Git LFS pointer, not the weights themselves',
    remedy: 'Run "git lfs pull" in the model’s folder, or download the file.',
  });
}
