// Threads that share loops, in a program of their own: far more loops than steps of a model have in the same time.

import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  commonFlags,
  compileObjects,
  findCompiler,
  includeFlags,
  nativeFolder,
  runCompiler,
} from '../../scripts/build-native.js';

const compiler = findCompiler();
const program = join(nativeFolder, '..', 'build', 'thread-pool-loops');
const SECONDS = 2;
/** A loop of which an index is lost never ends. */
const LOST_MS = 60_000;

describe.skipIf(compiler === undefined)('a pool of threads (skipped where there is no compiler)', () => {
  beforeAll(async () => {
    const flags = [...commonFlags, ...includeFlags];
    const sources = [
      { folder: nativeFolder, name: 'system/thread-pool.cc', flags },
      { folder: nativeFolder, name: 'system/thread-nodes.cc', flags },
      { folder: nativeFolder, name: 'system/pages.cc', flags },
      { folder: fileURLToPath(new URL('.', import.meta.url)), name: 'thread-pool/loops.cc', flags },
    ];
    const options = { compiler: compiler as string, arch: process.arch, sources };
    await runCompiler(compiler as string, [...(await compileObjects(options)), '-pthread', '-o', program]);
  });

  it.each([
    [2, 1],
    [availableParallelism() + 1, 1],
    [4 * availableParallelism(), 1],
    [4 * availableParallelism() + 1, 3],
  ])(
    'computes every index of every loop once, with %i threads on %i nodes, two callers, and as many threads as it likes',
    async (threads, nodes) => {
      const { stdout } = await promisify(execFile)(program, [`${threads}`, `${SECONDS}`, `${nodes}`], {
        timeout: LOST_MS,
      });
      const [, loops, wrong] = /^(\d+) loops, (\d+) wrong$/m.exec(stdout) ?? [];
      expect(Number(wrong)).toBe(0);
      expect(Number(loops)).toBeGreaterThan(100);
    },
  );
});
