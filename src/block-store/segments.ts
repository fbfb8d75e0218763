// Which segments there are in a store's folder. Each model has a folder in it, and each segment two files: its blocks, and the
// index of them. A segment has one writer, who adds to its end; everybody may read it, and remove it.
//
//   PATH/store.key
//   PATH/store.id
//   PATH/llama-3.2-1b-5d41402abc4b2a76/0192f5a1c3e7-9a31c2d4e5f60718.blocks, .index

import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { StoreFiles } from './store-files.ts';

/** Blocks are found by the models that computed them alone. */
export interface ModelIdentity {
  /** What people call it. */
  readonly name: string;
  /** What makes its blocks the same bits: content, KV type, version of the arithmetic. */
  readonly identity: string;
}

export interface Segment {
  /** Folder of its model. */
  readonly model: string;
  /** Orders all segments of a store by the time they were begun. */
  readonly name: string;
  /** Of both files. */
  readonly bytes: number;
}

const BLOCKS = '.blocks';
const INDEX = '.index';
const TIME_DIGITS = 12;
const DIGEST_DIGITS = 16;
const NAME = /^([0-9a-f]{12}-[0-9a-f]{16})(\.blocks|\.index)$/;
const MODEL = /^.*-[0-9a-f]{16}$/;

export function modelFolder({ name, identity }: ModelIdentity): string {
  const readable = name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[.-]+/, '');
  const digest = createHash('sha256').update(identity).digest('hex');
  return `${readable.slice(0, 60)}-${digest.slice(0, DIGEST_DIGITS)}`;
}

/** The folder that other processes use for the same model, whatever they call it; otherwise its own, which is made. */
export function sharedModelFolder(files: StoreFiles, folder: string, own: string): string {
  const digest = own.slice(-DIGEST_DIGITS - 1);
  const known = () =>
    listModels(files, folder)
      .filter((name) => name.endsWith(digest))
      .sort()[0];
  const before = known();
  if (before !== undefined) return before;
  try {
    // At once, before there is anything in it, so that those who come next take the same.
    files.makeFolder(join(folder, own));
  } catch {
    // What cannot be written may be read all the same.
  }
  return known() ?? own;
}

export function segmentName(beginMs: number): string {
  return `${beginMs.toString(16).padStart(TIME_DIGITS, '0')}-${randomBytes(8).toString('hex')}`;
}

/** Names that sort before it belong to segments that were begun before that time. */
export function nameAt(timeMs: number): string {
  return Math.max(0, Math.floor(timeMs)).toString(16).padStart(TIME_DIGITS, '0');
}

export function beginMsOf(name: string): number {
  return Number.parseInt(name.slice(0, TIME_DIGITS), 16);
}

export function blocksPath(folder: string, model: string, name: string): string {
  return join(folder, model, `${name}${BLOCKS}`);
}

export function indexPath(folder: string, model: string, name: string): string {
  return join(folder, model, `${name}${INDEX}`);
}

export function listModels(files: StoreFiles, folder: string): string[] {
  return files.list(folder).filter((name) => MODEL.test(name));
}

/** Names of a model's segments, oldest first. */
export function listSegments(files: StoreFiles, folder: string, model: string): string[] {
  const names = files.list(join(folder, model)).flatMap((name) => NAME.exec(name)?.[1] ?? []);
  return [...new Set(names)].sort();
}

/** Of all models, oldest first. */
export function allSegments(files: StoreFiles, folder: string): Segment[] {
  return listModels(files, folder)
    .flatMap((model) =>
      listSegments(files, folder, model).map((name) => ({
        model,
        name,
        bytes:
          bytesOf(files, blocksPath(folder, model, name)) + bytesOf(files, indexPath(folder, model, name)),
      })),
    )
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

export function removeSegment(files: StoreFiles, folder: string, model: string, name: string): void {
  // Without its index a segment is not found any more, even if the second removal never comes.
  files.remove(indexPath(folder, model, name));
  files.remove(blocksPath(folder, model, name));
}

function bytesOf(files: StoreFiles, path: string): number {
  return files.bytesOf(path) ?? 0;
}
