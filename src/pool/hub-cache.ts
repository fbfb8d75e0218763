// Models in the cache that Hugging Face's tools share. Of each repository:
//
//   models--owner--repo/refs/main            the commit that main was at, as text
//   models--owner--repo/snapshots/<commit>/  its files, links into blobs (or files, where the system has no links)
//   models--owner--repo/blobs/<hash>         contents; <hash>.incomplete while it comes

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type ModelFiles, modelFilesUnder } from './model-files.ts';

interface CachedRepository {
  /** `owner/repo`, or a name alone for the hub's oldest models. */
  readonly id: string;
  /** The snapshot that is used, if there is any. */
  readonly folder: string | undefined;
  readonly models: readonly ModelFiles[];
  /** A blob whose download has not ended. */
  readonly unfinishedBlob: string | undefined;
}

/** Every repository of models, by name. Nothing where there is no cache. */
export function cachedRepositories(cache: string): CachedRepository[] {
  return namesIn(cache)
    .filter((name) => /^models--[^-]/.test(name))
    .map((name) => repositoryAt(join(cache, name), name.slice('models--'.length).replace('--', '/')));
}

function repositoryAt(path: string, id: string): CachedRepository {
  const snapshots = snapshotsOf(path).map((folder) => ({ folder, models: modelFilesUnder(folder) }));
  // A newer commit may be there without weights, where a tool only looked at its configuration.
  const chosen = snapshots.find(({ models }) => models.length > 0) ?? snapshots[0];
  return { id, folder: chosen?.folder, models: chosen?.models ?? [], unfinishedBlob: unfinishedBlob(path) };
}

/** That of main first, then the others, the latest first. */
function snapshotsOf(path: string): string[] {
  const main = commitOf(join(path, 'refs', 'main'));
  const changedMs = (folder: string) => statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const folders = namesIn(join(path, 'snapshots')).map((commit) => join(path, 'snapshots', commit));
  return folders.toSorted(
    (a, b) => Number(b.endsWith(main)) - Number(a.endsWith(main)) || changedMs(b) - changedMs(a),
  );
}

function commitOf(ref: string): string {
  try {
    return readFileSync(ref, 'utf8').trim() || NO_COMMIT;
  } catch {
    return NO_COMMIT;
  }
}

/** Ends no path. */
const NO_COMMIT = '/';

/** One that also has come whole is a leftover of an earlier attempt. */
function unfinishedBlob(path: string): string | undefined {
  const blobs = join(path, 'blobs');
  return namesIn(blobs).find(
    (name) => name.endsWith('.incomplete') && !existsSync(join(blobs, name.slice(0, name.indexOf('.')))),
  );
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}
