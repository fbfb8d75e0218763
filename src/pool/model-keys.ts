// A model's key: the SHA-256 of all its files. Hashing large files takes long, so hashes are stored in a file, by path, size
// and modification time.

import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { folderOf, modelParts, towerFiles } from './model-files.ts';

const READ_BYTES = 1 << 20;

interface Known {
  readonly stamp: string;
  readonly hash: string;
}

export class ModelKeys {
  readonly #path: string;
  readonly #known: Map<string, Known>;
  readonly #keys = new Map<string, { readonly stamp: string; readonly key: Promise<string> }>();

  constructor(path: string) {
    this.#path = path;
    this.#known = new Map(Object.entries(readKnown(path)));
  }

  of(path: string): Promise<string> {
    return this.#keyOf(path, filesAt(path));
  }

  /** Of what it reads images with: a folder's tower is one of its files. */
  ofTower(path: string, projectorPath?: string): Promise<string> {
    const files = towerFiles(path, projectorPath);
    return files.length === 0 ? this.of(path) : this.#keyOf(files.join(' '), files);
  }

  async #keyOf(name: string, files: readonly string[]): Promise<string> {
    const stamp = files.map(stampOf).join(' ');
    const before = this.#keys.get(name);
    if (before?.stamp === stamp) return before.key;
    const key = this.#read(files);
    this.#keys.set(name, { stamp, key });
    key.catch(() => this.#keys.delete(name));
    return key;
  }

  async #read(files: readonly string[]): Promise<string> {
    const whole = createHash('sha256');
    for (const file of files) whole.update(await this.#hashOf(file));
    return whole.digest('hex').slice(0, 32);
  }

  async #hashOf(file: string): Promise<string> {
    const stamp = stampOf(file);
    const known = this.#known.get(file);
    if (known?.stamp === stamp) return known.hash;
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(file, { highWaterMark: READ_BYTES }))
      hash.update(chunk as Buffer);
    const found = { stamp, hash: hash.digest('hex') };
    this.#known.set(file, found);
    this.#keep();
    return found.hash;
  }

  /** A hash that cannot be stored is computed again. */
  #keep(): void {
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      const aside = `${this.#path}.${process.pid}`;
      writeFileSync(aside, JSON.stringify(Object.fromEntries(this.#known)), { mode: 0o600 });
      renameSync(aside, this.#path);
    } catch {}
  }
}

function filesAt(path: string): string[] {
  return modelParts(path).map((name) => join(folderOf(path), name));
}

function stampOf(file: string): string {
  const { size, mtimeMs, ino } = statSync(file);
  return `${size}.${mtimeMs}.${ino}`;
}

function readKnown(path: string): Record<string, Known> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, Known>;
  } catch {
    return {};
  }
}
