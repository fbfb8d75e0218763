// Brings a model from the hub into the models folder: lists its repository, chooses the files, checks that they
// fit on the disk, and transfers one after the other.

import { mkdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { chooseFiles, sumOf } from './choose-files.ts';
import { type Checksum, fileUrl, type Hub, type HubFile, listHubFiles } from './hub.ts';
import { PART } from './model-files.ts';
import type { ModelReference } from './model-reference.ts';
import { PullError } from './model-reference.ts';
import { defaultPatience, type Patience, transferFile } from './transfer.ts';

export const HUB_URL = 'https://huggingface.co';

export interface PullProgress {
  /** The file that is on its way, inside the repository. */
  readonly file: string;
  /** Of this file. */
  readonly fileBytes: number;
  readonly fileDoneBytes: number;
  readonly checksum: Checksum | undefined;
  /** Of all files. */
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** What came over the network so far; the rest was there. */
  readonly cameBytes: number;
}

export interface PullOptions {
  /** The models folder; the files come to lie in `owner/repo` in it. */
  readonly folder: string;
  readonly hub: Hub;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PullProgress) => void;
  readonly onFile?: (file: HubFile, outcome: 'fetched' | 'present') => void;
  readonly patience?: Patience;
  /** Free space for files in a folder. */
  readonly freeBytes?: (folder: string) => Promise<number>;
}

interface PulledModel {
  /** What opens the model: a GGUF or a folder. */
  readonly path: string;
  readonly totalBytes: number;
}

/** Throws PullError where it cannot be done, and the signal's reason where it is aborted: what came is kept. */
export async function pullModel(reference: ModelReference, options: PullOptions): Promise<PulledModel> {
  const { folder, hub, signal } = options;
  const files = chooseFiles(await listHubFiles(hub, reference, signal), reference.file);
  const home = join(folder, reference.owner, reference.repo);
  try {
    await mkdir(home, { recursive: true });
    await refuseFullDisk(home, files, options.freeBytes ?? freeDiskBytes);
    await transferAll(files, home, reference, options);
  } catch (error) {
    throw explained(error, folder);
  }
  const gguf = files.find(({ path }) => path.endsWith('.gguf'));
  return { path: gguf === undefined ? home : join(home, gguf.path), totalBytes: sumOf(files) };
}

async function transferAll(
  files: readonly HubFile[],
  home: string,
  reference: ModelReference,
  { hub, signal, onProgress, onFile, patience = defaultPatience }: PullOptions,
): Promise<void> {
  const totalBytes = sumOf(files);
  let earlierBytes = 0;
  let cameBytes = 0;
  for (const file of files) {
    const outcome = await transferFile({
      hub,
      repository: reference,
      file,
      address: fileUrl(hub, reference, file.path),
      target: join(home, file.path),
      signal,
      onProgress: (bytes, justCame) => {
        cameBytes += justCame;
        onProgress({
          file: file.path,
          fileBytes: file.sizeBytes,
          fileDoneBytes: bytes,
          checksum: file.checksum,
          doneBytes: earlierBytes + bytes,
          totalBytes,
          cameBytes,
        });
      },
      patience,
    });
    earlierBytes += file.sizeBytes;
    onFile?.(file, outcome);
  }
}

async function refuseFullDisk(
  home: string,
  files: readonly HubFile[],
  freeBytes: (folder: string) => Promise<number>,
): Promise<void> {
  const missing = await Promise.all(
    files.map(async ({ path, sizeBytes }) => {
      if ((await bytesOf(join(home, path))) === sizeBytes) return 0;
      return Math.max(0, sizeBytes - (await bytesOf(join(home, path) + PART)));
    }),
  );
  const needed = missing.reduce((sum, bytes) => sum + bytes, 0);
  const free = await freeBytes(home);
  if (needed <= free) return;
  const shown = (bytes: number) => `${(bytes / 1e9).toPrecision(3)} GB`;
  throw new PullError(
    `${shown(needed)} are still to come, but ${dirname(dirname(home))} has ${shown(free)} free; ` +
      'make room, or give another folder',
  );
}

async function freeDiskBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

async function bytesOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}

function explained(error: unknown, folder: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC') {
    return new PullError('the disk is full; what came is kept: make room and pull again to go on');
  }
  if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM' || code === 'ENOTDIR' || code === 'EEXIST') {
    return new PullError(`${folder} cannot be written to (${code}); give another folder`);
  }
  return error;
}
