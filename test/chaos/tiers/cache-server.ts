// One server of those that share a folder of KV blocks: started, ended and started again, on a port of its own. What it says on
// standard error, and how many of its blocks came up from the disk, is counted over all its lives.

import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { childrenOf, sendSignal } from '../process-table.ts';
import { type ServerProcess, startPlainly } from '../server-process.ts';
import { FULL_DISK_FILE } from './full-disk.ts';

const START_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 60_000;
/** Room for two of the longest prompts: others have to leave. */
const KV_BLOCKS = 96;

export interface CacheSettings {
  readonly folder: string;
  readonly sizeBytes: number;
  /** 0: no limit. */
  readonly ageSeconds: number;
}

export interface CacheServerParts {
  readonly root: string;
  readonly home: string;
  readonly name: string;
  readonly fullDiskFile: string;
  /** Something on standard error that is no line of the log. */
  readonly onCry: (line: string) => void;
}

export class CacheServer {
  readonly name: string;
  readonly #parts: CacheServerParts;
  #process: ServerProcess | undefined;
  #port = 0;
  #output = '';
  #isEnding = false;
  readonly counts = { lives: 0, writeWarnings: 0, otherWarnings: 0 };
  /** Of all lives, by label of the metric. */
  readonly moved: Record<string, number> = {};
  #lastMoved: Record<string, number> = {};
  readonly warnings = new Set<string>();

  constructor(parts: CacheServerParts) {
    this.name = parts.name;
    this.#parts = parts;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get isAlive(): boolean {
    return this.#process?.alive === true;
  }

  /** Ended by itself. */
  get hasDied(): boolean {
    return this.#process !== undefined && !this.#process.alive && !this.#isEnding;
  }

  /** Resolves when it listens. Without settings it has no tier. */
  async start(settings?: CacheSettings): Promise<void> {
    if (this.#port === 0) this.#port = await freePort();
    const { root, home, name, fullDiskFile } = this.#parts;
    const preload = join(root, 'build', 'chaos', 'test', 'chaos', 'tiers', 'full-disk.js');
    const model = join(root, 'models', 'chairlift-demo-14m-q8_0.gguf');
    const args = [
      ...['serve', '--port', String(this.#port), '--database', join(home, `${name}.db`)],
      ...['--model', model, '--kv-blocks', String(KV_BLOCKS), '--threads', '1', '--speculation', 'off'],
      ...(settings === undefined ? [] : tierFlags(settings)),
    ];
    this.#isEnding = false;
    this.#lastMoved = {};
    this.#output = '';
    const child = startPlainly({
      program: process.execPath,
      args: ['--import', pathToFileURL(preload).href, join(root, 'bin', 'chairlift.js'), ...args],
      folder: home,
      environment: {
        PATH: process.env.PATH,
        HOME: home,
        [FULL_DISK_FILE]: fullDiskFile,
      },
    });
    this.#process = child;
    this.counts.lives += 1;
    let rest = '';
    child.listen(
      (text) => this.#hear(text),
      (text) => {
        this.#hear(text);
        const lines = (rest + text).split('\n');
        rest = lines.pop() as string;
        for (const line of lines) this.#hearLine(line);
      },
    );
    await this.#listening(child);
  }

  async kill(): Promise<void> {
    this.#isEnding = true;
    this.#process?.signal('SIGKILL');
    await this.#process?.exited;
  }

  /** In good order; the exit code, or undefined where it took too long and was killed. */
  async stop(): Promise<number | null | undefined> {
    this.#isEnding = true;
    this.#process?.signal('SIGTERM');
    const late = sleep(STOP_LIMIT_MS, undefined, { ref: false });
    const exit = await Promise.race([this.#process?.exited, late]);
    if (exit !== undefined) return exit.code;
    await this.kill();
    return undefined;
  }

  async signalEngines(signal: NodeJS.Signals): Promise<number> {
    if (this.#process === undefined || !this.isAlive) return 0;
    const engines = await childrenOf(this.#process.pid).catch(() => []);
    for (const { pid } of engines) sendSignal(pid, signal);
    return engines.length;
  }

  /** Takes what its metrics say of tiers into the counts. */
  async readMetrics(): Promise<void> {
    if (!this.isAlive) return;
    try {
      const response = await fetch(`${this.url}/metrics`, { signal: AbortSignal.timeout(5000) });
      const text = await response.text();
      const pattern =
        /^chairlift_cache_(?:tier_moved|loads)_total\{[^}]*?(?:event|outcome)="(\w+)"[^}]*\} (\d+)$/gm;
      for (const [, event = '', count] of text.matchAll(pattern)) {
        const risen = Number(count) - (this.#lastMoved[event] ?? 0);
        this.#lastMoved[event] = Number(count);
        this.moved[event] = (this.moved[event] ?? 0) + Math.max(0, risen);
      }
    } catch {
      // It ends, or was ended.
    }
  }

  recent(): string {
    return this.#output.slice(-2000);
  }

  #hear(text: string): void {
    this.#output = (this.#output + text).slice(-20_000);
  }

  #hearLine(line: string): void {
    if (line.trim() === '' || line.startsWith('closing: ')) return;
    if (!line.startsWith('{')) {
      this.#parts.onCry(`${this.name}: ${line}`);
      return;
    }
    if (line.includes('blocks cannot be written')) this.counts.writeWarnings += 1;
    else if (line.includes('block store')) this.counts.otherWarnings += 1;
    if (line.includes('block store') && this.warnings.size < 20)
      this.warnings.add(
        line
          .replace(/^.*block store at \S+ /, '')
          .replace(/\d+/g, 'N')
          .slice(0, 200),
      );
  }

  async #listening(child: ServerProcess): Promise<void> {
    const untilMs = performance.now() + START_LIMIT_MS;
    while (performance.now() < untilMs) {
      if (this.#output.includes('listens on ')) return;
      if (!child.alive) break;
      await sleep(50);
    }
    throw new Error(`server ${this.name} did not start:\n${this.recent()}`);
  }
}

function tierFlags({ folder, sizeBytes, ageSeconds }: CacheSettings): string[] {
  return [
    ...['--cache-disk', folder, '--cache-disk-size', String(sizeBytes)],
    ...['--cache-disk-age', String(ageSeconds)],
  ];
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
