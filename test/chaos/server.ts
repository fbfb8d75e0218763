// The server under test, started as a user starts it: `node bin/chairlift.js serve` in a process of its own, on a free
// port, in an empty home.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FIRST_MODEL, SECOND_MODEL } from './catalogue.ts';
import { childrenOf, type ProcessEntry, sendSignal } from './process-table.ts';
import { writeSecondModel } from './second-model.ts';
import { ServerLog } from './server-log.ts';

const START_LIMIT_MS = 120_000;
/** Few enough that requests have to make room for each other, */
const KV_BLOCKS = 64;
/** and that a flood finds the queue full. */
const QUEUED_REQUESTS = 16;
export const STEP_TIMEOUT_SECONDS = 8;

export interface ServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class Server {
  readonly url: string;
  readonly pid: number;
  readonly log: ServerLog;
  readonly exited: Promise<ServerExit>;
  /** Whether a hung engine is replaced by the server itself. */
  readonly watchdog: boolean;
  readonly #home: ServerHome;
  readonly #child: ChildProcess;

  constructor(home: ServerHome, child: ChildProcess, url: string, log: ServerLog, watchdog: boolean) {
    this.#home = home;
    this.#child = child;
    this.url = url;
    this.pid = child.pid as number;
    this.log = log;
    this.watchdog = watchdog;
    this.exited = new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) {
        resolve({ code: child.exitCode, signal: child.signalCode });
      }
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get database(): string {
    return this.#home.database;
  }

  engines(): Promise<ProcessEntry[]> {
    return childrenOf(this.pid);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }
}

export class ServerHome {
  readonly folder = mkdtempSync(join(tmpdir(), 'chairlift-chaos-'));
  readonly database = join(this.folder, 'chaos.db');
  readonly #root: string;
  readonly #program: string;
  #child: ChildProcess | undefined;

  /** `root`: of the checkout. */
  constructor(root: string) {
    this.#root = root;
    this.#program = join(root, 'bin', 'chairlift.js');
  }

  /** Makes an admin's key with the command line and gives its secret. */
  createAdminKey(): string {
    const flags = [
      '--name',
      'chaos-admin',
      '--tier',
      'high',
      '--admin',
      '--json',
      '--database',
      this.database,
    ];
    return (JSON.parse(this.#output('keys', 'create', ...flags)) as { key: string }).key;
  }

  /** Resolves when it listens. `onError` hears every error in its log. */
  async start(onError: (message: string) => void): Promise<Server> {
    const second = join(this.folder, 'second.gguf');
    writeSecondModel(second);
    const first = join(this.#root, 'models', 'chairlift-demo-14m-q8_0.gguf');
    const watchdog = this.#output('serve', '--help').includes('--step-timeout');
    const args = [
      ...['serve', '--port', '0', '--database', this.database],
      ...['--kv-blocks', String(KV_BLOCKS), '--max-queued-requests', String(QUEUED_REQUESTS)],
      ...['--model', `${FIRST_MODEL}=${first}`, '--model', `${SECOND_MODEL}=${second}`],
      ...(watchdog ? ['--step-timeout', String(STEP_TIMEOUT_SECONDS)] : []),
    ];
    const child = spawn(process.execPath, [this.#program, ...args], {
      cwd: this.folder,
      env: this.#environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const log = new ServerLog((line) => line.startsWith('closing: '), onError);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => log.take(text));
    return new Server(this, child, await listening(child, log), log, watchdog);
  }

  /** Whether files beside the database remain that a clean exit takes away. */
  leftOvers(): string[] {
    return ['-wal', '-shm'].map((suffix) => this.database + suffix).filter((path) => existsSync(path));
  }

  /** Ends whatever still runs, stopped engines too, and removes the folder. */
  async remove(): Promise<void> {
    const pid = this.#child?.pid;
    if (pid !== undefined && this.#child?.exitCode === null && this.#child.signalCode === null) {
      const engines = await childrenOf(pid).catch(() => []);
      this.#child.kill('SIGKILL');
      for (const engine of engines) sendSignal(engine.pid, 'SIGKILL');
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #output(...args: string[]): string {
    return execFileSync(process.execPath, [this.#program, ...args], {
      env: this.#environment(),
      encoding: 'utf8',
    });
  }

  #environment(): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, HOME: this.folder };
  }
}

async function listening(child: ChildProcess, log: ServerLog): Promise<string> {
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    if (output.length < 10_000) output += text;
  });
  for (let waitedMs = 0; waitedMs < START_LIMIT_MS; waitedMs += 50) {
    const url = /listens on (\S+)/.exec(output)?.[1];
    if (url !== undefined) return url;
    if (child.exitCode !== null) break;
    await sleep(50);
  }
  throw new Error(`the server did not start (exit code ${child.exitCode}):\n${log.recent()}`);
}
