// What answers of a model follow from, beside their requests: its files, and what computes. An answer that began elsewhere, or
// before a restart, is gone on with only where all of it is the same.

import { createHash } from 'node:crypto';
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ARITHMETIC_VERSION } from '../compute/backend.ts';
import type { Config } from '../config.ts';
import { filesOfGguf } from '../pool/model-files.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';

const SAMPLE_BYTES = 64 * 1024;

/**
 * Looks at a model's files once, when it is first asked after it was loaded. Their sizes, times of change, beginnings and ends are
 * compared, not all of their bytes: hashing a large model would take a minute of a processor.
 */
export function answerOrigins(
  { kvType }: Pick<Config, 'kvType'>,
  pool: Pick<ModelPool, 'list'>,
): (model: ServedModel) => string | undefined {
  const known = new WeakMap<object, string>();
  return (model) => {
    const before = known.get(model);
    if (before !== undefined) return before;
    const entry = pool.list().find(({ name }) => name === model.name);
    const hash = createHash('sha256');
    for (const path of [model.path, entry?.adapterPath]) {
      for (const file of path === undefined ? [] : filesAt(path)) hash.update(`${describe(file)}\n`);
    }
    const computedBy = entry?.computedBy ?? '';
    const origin = hash.update(`${computedBy} ${kvType} ${ARITHMETIC_VERSION}`).digest('base64url');
    known.set(model, origin);
    return origin;
  };
}

function filesAt(path: string): string[] {
  if (!statSync(path).isDirectory()) return filesOfGguf(path);
  return readdirSync(path, { withFileTypes: true })
    .filter((one) => !one.isDirectory() && !one.name.startsWith('.'))
    .map(({ name }) => join(path, name))
    .sort();
}

function describe(file: string): string {
  const { size, mtimeMs } = statSync(file);
  const hash = createHash('sha256');
  const handle = openSync(file, 'r');
  try {
    const buffer = Buffer.alloc(SAMPLE_BYTES);
    for (const from of [0, Math.max(0, size - SAMPLE_BYTES)]) {
      hash.update(buffer.subarray(0, readSync(handle, buffer, 0, SAMPLE_BYTES, from)));
    }
  } finally {
    closeSync(handle);
  }
  return `${basename(file)} ${size} ${mtimeMs} ${hash.digest('base64url')}`;
}
