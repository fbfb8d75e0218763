// The server under test, started as a user starts it: `node bin/chairlift.js serve` in a process of its own, in an
// empty home. Every start takes the same port and the same database.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FIRST_MODEL, SECOND_MODEL } from './catalogue.ts';
import { childrenOf, type ProcessEntry, sendSignal } from './process-table.ts';
import { writeSecondModel } from './second-model.ts';
import { ServerLog } from './server-log.ts';
import { type Command, type ServerProcess, startInTerminal, startPlainly } from './server-process.ts';

const START_LIMIT_MS = 120_000;
/** Few enough that requests have to make room for each other, */
const KV_BLOCKS = 64;
/** and that a flood finds the queue full. */
const QUEUED_REQUESTS = 16;
export const STEP_TIMEOUT_SECONDS = 8;

/** What may differ from one start to the next. */
export interface ServerSettings {
  /** `one model`: either fits, both do not. */
  readonly memory: 'ample' | 'one model';
  readonly terminal: boolean;
  readonly shutdownLimitSeconds: number;
}

export const plainSettings: ServerSettings = { memory: 'ample', terminal: false, shutdownLimitSeconds: 30 };

export class Server {
  readonly url: string;
  readonly settings: ServerSettings;
  readonly process: ServerProcess;
  readonly log: ServerLog;
  /** Whether a hung engine is replaced by the server itself. */
  readonly watchdog: boolean;
  readonly #home: ServerHome;

  constructor(
    home: ServerHome,
    process: ServerProcess,
    settings: ServerSettings,
    log: ServerLog,
    watchdog: boolean,
  ) {
    this.#home = home;
    this.url = home.url;
    this.process = process;
    this.settings = settings;
    this.log = log;
    this.watchdog = watchdog;
  }

  get alive(): boolean {
    return this.process.alive;
  }

  get pid(): number {
    return this.process.pid;
  }

  get database(): string {
    return this.#home.database;
  }

  startTwin(): ServerProcess {
    return this.#home.startTwin(this.settings);
  }

  engines(): Promise<ProcessEntry[]> {
    return childrenOf(this.pid);
  }
}

export class ServerHome {
  readonly folder = mkdtempSync(join(tmpdir(), 'chairlift-chaos-'));
  readonly database = join(this.folder, 'chaos.db');
  /** What either model takes and both do not; known once both were loaded. */
  memoryOfOneBytes: number | undefined;
  readonly #root: string;
  readonly #program: string;
  #port = 0;
  #watchdog = false;
  /** All that were started; those that live are ended with the run. */
  readonly #processes: ServerProcess[] = [];

  /** `root`: of the checkout. */
  constructor(root: string) {
    this.#root = root;
    this.#program = join(root, 'bin', 'chairlift.js');
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async prepare(): Promise<void> {
    this.#port = await freePort();
    writeSecondModel(this.#secondModel);
    this.#watchdog = this.#output('serve', '--help').includes('--step-timeout');
  }

  /** Makes an admin's key with the command line and gives its secret. */
  createAdminKey(): string {
    const flags = ['--name', 'chaos-admin', '--tier', 'high', '--admin', '--json'];
    const text = this.#output('keys', 'create', ...flags, '--database', this.database);
    return (JSON.parse(text) as { key: string }).key;
  }

  /** Resolves when it listens. `onError` hears every error in its log. */
  async start(settings: ServerSettings, onError: (message: string) => void): Promise<Server> {
    const command = this.#command(settings);
    const inTerminal = settings.terminal ? await startInTerminal(command) : undefined;
    const child = inTerminal ?? startPlainly(command);
    this.#processes.push(child);
    const expected =
      inTerminal === undefined
        ? (line: string) => line.startsWith('closing: ')
        : // What it says to its user is there, too.
          (line: string) => !/error|warning|exception/i.test(line);
    const log = new ServerLog(expected, onError);
    const real = { ...settings, terminal: inTerminal !== undefined };
    const server = new Server(this, child, real, log, this.#watchdog);
    await listening(child, log);
    return server;
  }

  /** The very same once more, by mistake. */
  startTwin(settings: ServerSettings): ServerProcess {
    const twin = startPlainly(this.#command(settings));
    this.#processes.push(twin);
    return twin;
  }

  #command({ memory, shutdownLimitSeconds }: ServerSettings): Command {
    const first = join(this.#root, 'models', 'chairlift-demo-14m-q8_0.gguf');
    const bytes = memory === 'one model' ? this.memoryOfOneBytes : undefined;
    const args = [
      ...['serve', '--port', String(this.#port), '--database', this.database],
      ...['--kv-blocks', String(KV_BLOCKS), '--max-queued-requests', String(QUEUED_REQUESTS)],
      ...['--model', `${FIRST_MODEL}=${first}`, '--model', `${SECOND_MODEL}=${this.#secondModel}`],
      ...['--shutdown-limit', String(shutdownLimitSeconds)],
      ...(this.#watchdog ? ['--step-timeout', String(STEP_TIMEOUT_SECONDS)] : []),
      ...(bytes === undefined ? [] : ['--memory', String(bytes)]),
    ];
    return {
      program: process.execPath,
      args: [this.#program, ...args],
      folder: this.folder,
      environment: this.#environment(),
    };
  }

  /** Whether files beside the database remain that a clean exit takes away. */
  leftOvers(): string[] {
    return ['-wal', '-shm'].map((suffix) => this.database + suffix).filter((path) => existsSync(path));
  }

  /** Ends whatever still runs, stopped engines too, and removes the folder. */
  async remove(): Promise<void> {
    for (const child of this.#processes.filter(({ alive }) => alive)) {
      const engines = await childrenOf(child.pid).catch(() => []);
      sendSignal(child.pid, 'SIGKILL');
      for (const engine of engines) sendSignal(engine.pid, 'SIGKILL');
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  get #secondModel(): string {
    return join(this.folder, 'second.gguf');
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

async function listening(child: ServerProcess, log: ServerLog): Promise<void> {
  let output = '';
  const take = (text: string) => {
    if (output.length < 10_000) output += text;
  };
  // In a terminal the log is part of what is shown.
  const shown = (text: string) => {
    take(text);
    if (child.closeTerminal !== undefined) log.take(text);
  };
  child.listen(shown, (text) => log.take(text));
  for (let waitedMs = 0; waitedMs < START_LIMIT_MS; waitedMs += 50) {
    if (/listens on (\S+)/.test(output)) return;
    if (!child.alive) break;
    await sleep(50);
  }
  throw new Error(`the server did not start:\n${log.recent()}`);
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
