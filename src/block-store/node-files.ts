// The file system of this machine, for threads that may wait for it.

import {
  closeSync,
  constants,
  copyFileSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmdirSync,
  statfsSync,
  statSync,
  unlinkSync,
  writevSync,
} from 'node:fs';
import type { StoreFiles } from './store-files.ts';

const OWNERS_FILE = 0o600;
const OWNERS_FOLDER = 0o700;
/** As many as systems take in one call. */
const PARTS_AT_ONCE = 512;

/** ESTALE: another machine removed it from shared storage. */
const ABSENT = ['ENOENT', 'ESTALE'];

/** What the call returns, or undefined where it failed for one of these reasons. */
function unless<T>(codes: readonly string[], call: () => T): T | undefined {
  try {
    return call();
  } catch (error) {
    if (codes.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}

/** Some file systems have no links. */
const LINKLESS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'];

function copied(from: string, to: string): true {
  copyFileSync(from, to, constants.COPYFILE_EXCL);
  return true;
}

export const nodeFiles: StoreFiles = {
  list: (folder) => unless([...ABSENT, 'ENOTDIR'], () => readdirSync(folder)) ?? [],
  makeFolder: (path) => void mkdirSync(path, { recursive: true, mode: OWNERS_FOLDER }),
  create: (path) => unless(['EEXIST'], () => openSync(path, 'wx+', OWNERS_FILE)),
  open: (path, access) => unless(ABSENT, () => openSync(path, access === 'read' ? 'r' : 'r+')),
  close: closeSync,

  read(file, into, position) {
    let count = 0;
    while (count < into.length) {
      const more = readSync(file, into, count, into.length - count, position + count);
      if (more === 0) break;
      count += more;
    }
    return count;
  },

  write(file, parts, position) {
    let [first, rest, at] = [0, parts[0], position];
    while (rest !== undefined) {
      const some = [rest, ...parts.slice(first + 1, first + PARTS_AT_ONCE)];
      let count = writevSync(file, some, at);
      at += count;
      // Where a part was written in part, go on in its midst.
      while (rest !== undefined && count >= rest.length) {
        count -= rest.length;
        rest = parts[++first];
      }
      rest = rest?.subarray(count);
    }
  },

  truncate: ftruncateSync,
  state(file) {
    const known = unless(ABSENT, () => fstatSync(file));
    return { bytes: known?.size ?? 0, links: known?.nlink ?? 0 };
  },
  bytesOf: (path) => unless([...ABSENT, 'ENOTDIR'], () => statSync(path).size),
  sync: fdatasyncSync,

  syncFolder(path) {
    // Some systems open no folders, and need not.
    const folder = unless(['EISDIR', 'EPERM', 'EACCES', 'EINVAL'], () => openSync(path, 'r'));
    if (folder === undefined) return;
    try {
      unless(['EPERM', 'EINVAL', 'EBADF', 'ENOTSUP'], () => fsyncSync(folder));
    } finally {
      closeSync(folder);
    }
  },

  link(from, to) {
    try {
      linkSync(from, to);
      return true;
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST' || ABSENT.includes(code)) return false;
      if (!LINKLESS.includes(code)) throw error;
      return unless(['EEXIST'], () => copied(from, to)) ?? false;
    }
  },
  rename: renameSync,
  remove: (path) => unless([...ABSENT, 'ENOTDIR'], () => unlinkSync(path)),
  removeFolder: (path) => unless([...ABSENT, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'], () => rmdirSync(path)),

  room(folder) {
    return unless(['ENOSYS', ...ABSENT], () => {
      const { blocks, bavail, bsize } = statfsSync(folder);
      return { bytes: blocks * bsize, freeBytes: bavail * bsize };
    });
  },
};
