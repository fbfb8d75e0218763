// The folder of KV blocks from outside: what can happen to its files, and what must hold of it in the end. `chairlift cache` is asked,
// as an operator would.

import { execFile } from 'node:child_process';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { IndexReader } from '../../../src/block-store/index-reader.ts';
import { KEY_FILE, readStoreKey } from '../../../src/block-store/key-file.ts';
import { nodeFiles } from '../../../src/block-store/node-files.ts';
import { RecordReader, type WantedBlock } from '../../../src/block-store/record-reader.ts';
import { Sealing } from '../../../src/block-store/sealing.ts';
import { blocksPath, listModels, listSegments } from '../../../src/block-store/segments.ts';
import type { ModelCheck, ModelSurvey } from '../../../src/block-store/survey.ts';
import type { Chance } from '../chance.ts';

export interface CommandResult {
  /** Undefined where a signal ended it. */
  readonly code: number | undefined;
  readonly output: string;
  readonly errors: string;
}

interface Checked {
  readonly whole: number;
  /** Blocks, entries of indexes and whole segments that cannot be read. */
  readonly damaged: number;
  readonly unreadable: number;
}

const COMMAND_LIMIT_MS = 120_000;

export class CacheFolder {
  readonly path: string;
  readonly #root: string;
  readonly #home: string;

  constructor(root: string, home: string) {
    this.#root = root;
    this.#home = home;
    this.path = join(home, 'cache');
  }

  /** `chairlift cache …` for this folder. */
  command(...args: string[]): Promise<CommandResult> {
    const words = [join(this.#root, 'bin', 'chairlift.js'), 'cache', ...args, '--cache-disk', this.path];
    const options = {
      env: { PATH: process.env.PATH, HOME: this.#home },
      timeout: COMMAND_LIMIT_MS,
      maxBuffer: 2 ** 24,
    };
    return new Promise((resolve) => {
      const child = execFile(process.execPath, words, options, (_, output, errors) =>
        resolve({ code: child.exitCode ?? undefined, output, errors }),
      );
    });
  }

  /** Throws where the folder does not open, or the exit code says another thing than the counts. */
  async verify(): Promise<Checked> {
    const { code, output, errors } = await this.command('verify', '--json');
    if (code !== 0 && code !== 1) throw new Error(`cache verify ended with ${code}: ${errors}`);
    const checks = JSON.parse(output) as ModelCheck[];
    const sum = (of: (check: ModelCheck) => number) => checks.reduce((total, check) => total + of(check), 0);
    const damaged = sum((check) => check.damaged + check.damagedSlots);
    if (damaged > 0 !== (code === 1))
      throw new Error(`cache verify ended with ${code} at ${damaged} damaged`);
    return {
      whole: sum(({ whole }) => whole),
      damaged,
      unreadable: sum((check) => check.unreadableSegments),
    };
  }

  /** When its oldest block was computed, in seconds since 1970; undefined where there is none. */
  async oldestS(): Promise<number | undefined> {
    const { code, output, errors } = await this.command('ls', '--json');
    if (code !== 0) throw new Error(`cache ls ended with ${code}: ${errors}`);
    const times = (JSON.parse(output) as ModelSurvey[]).flatMap(({ oldestS }) => oldestS ?? []);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  bytes(): number {
    return this.#segmentFiles().reduce((sum, path) => sum + (sizeOf(path) ?? 0), 0);
  }

  /** Turns bits of a byte somewhere in a segment; where, or undefined where there is none. */
  flipAnywhere(chance: Chance): string | undefined {
    const files = this.#segmentFiles();
    const path = files.length === 0 ? undefined : chance.pick(files);
    const size = path === undefined ? undefined : sizeOf(path);
    if (path === undefined || !size) return undefined;
    const at = chance.below(size);
    return flip(path, at, 1 + chance.below(255)) ? `${path} at ${at}` : undefined;
  }

  flipKey(chance: Chance): boolean {
    const path = join(this.path, KEY_FILE);
    const size = sizeOf(path);
    return !!size && flip(path, chance.below(size), 1 + chance.below(255));
  }

  /** Turns bits in so many blocks that are whole, each once; in how many it did. Nobody uses the folder meanwhile. */
  flipBlocks(count: number, chance: Chance): number {
    const whole = chance.shuffled(this.#wholeBlocks()).slice(0, count);
    return whole.filter(({ model, segment, offset, bytes }) =>
      flip(blocksPath(this.path, model, segment), offset + chance.below(bytes), 1 << chance.below(8)),
    ).length;
  }

  /** At once, whatever servers make in it meanwhile. */
  removeAll(): void {
    const gone = `${this.path}.gone`;
    if (existsSync(this.path)) renameSync(this.path, gone);
    rmSync(gone, { recursive: true, force: true });
  }

  removeFile(chance: Chance): string | undefined {
    const files = this.#segmentFiles();
    if (files.length === 0) return undefined;
    const path = chance.pick(files);
    rmSync(path, { force: true });
    return path;
  }

  #wholeBlocks(): (WantedBlock & { readonly model: string })[] {
    const storeKey = readStoreKey(nodeFiles, join(this.path, KEY_FILE));
    if (storeKey === undefined) return [];
    const sealing = new Sealing(storeKey);
    return listModels(nodeFiles, this.path).flatMap((model) => {
      const index = new IndexReader(nodeFiles, this.path, model, sealing);
      const reader = new RecordReader(nodeFiles, this.path, model, sealing);
      return listSegments(nodeFiles, this.path, model).flatMap((segment) => {
        const slots = index.read(segment)?.slots ?? [];
        const wanted = slots.map(({ key, offset, bytes }) => ({ key, segment, offset, bytes }));
        const blocks = reader.read(wanted);
        return wanted.flatMap((block, at) => (typeof blocks[at] === 'string' ? [] : [{ ...block, model }]));
      });
    });
  }

  #segmentFiles(): string[] {
    return listModels(nodeFiles, this.path).flatMap((model) =>
      listed(join(this.path, model)).map((name) => join(this.path, model, name)),
    );
  }
}

/** None where it was removed meanwhile. */
function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function sizeOf(path: string): number | undefined {
  try {
    return statSync(path).size;
  } catch {
    return undefined;
  }
}

/** False where the file, or that byte of it, is gone. */
function flip(path: string, at: number, bits: number): boolean {
  let file: number;
  try {
    file = openSync(path, 'r+');
  } catch {
    return false;
  }
  try {
    const byte = new Uint8Array(1);
    if (readSync(file, byte, 0, 1, at) === 0) return false;
    byte[0] = (byte[0] as number) ^ bits;
    return writeSync(file, byte, 0, 1, at) === 1;
  } finally {
    closeSync(file);
  }
}
