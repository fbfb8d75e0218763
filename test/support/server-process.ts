// The real program, started as a user starts it: `bin/chairlift.js serve` in a process of its own, on a free
// port, in an empty home, with nothing in the environment but the way to Node and what a test puts there.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { EngineStats } from '../../src/engine/engine.ts';
import type { Tier } from '../../src/store/key-record.ts';

const program = fileURLToPath(new URL('../../bin/chairlift.js', import.meta.url));

export interface ServerProcess {
  /** Empty for a worker of a fleet, which listens nowhere. */
  readonly url: string;
  readonly pid: number;
  /** The process that computes. */
  enginePid(): number;
  /** What was written to standard output so far. */
  output(): string;
  /** What was written to standard error so far. */
  log(): string;
  signal(name: NodeJS.Signals): void;
  /** The exit code; undefined where a signal ended it. */
  readonly exited: Promise<number | undefined>;
  /** Ends it if it still runs. */
  stop(): Promise<void>;
}

/** A home for tests of a file or a describe: in the end its servers are stopped, and it is removed. */
export function serverHome(): ServerHome {
  const home = new ServerHome();
  afterAll(() => home.close());
  return home;
}

/** A home for the database and the keys of one server; remove it at the end. */
export class ServerHome {
  readonly #started: ServerProcess[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
  readonly database: string;
  /** What runs the server and its engines. */
  node = process.execPath;
  /** What else is in their environment. */
  environment: NodeJS.ProcessEnv = {};

  /** With a file of its own where no database is given. */
  constructor(database?: string) {
    this.database = database ?? join(this.folder, 'test.db');
  }

  /** Makes a key with the command line and gives its secret. */
  createKey(name: string, tier: Tier, ...flags: string[]): string {
    const args = ['keys', 'create', '--name', name, '--tier', tier, '--json', '--database', this.database];
    const output = execFileSync(process.execPath, [program, ...args, ...flags], {
      env: this.#environment(),
      encoding: 'utf8',
    });
    return (JSON.parse(output) as { key: string }).key;
  }

  /** Runs a command with the database of this home. */
  run(...args: string[]): string {
    return execFileSync(process.execPath, [program, ...args, '--database', this.database], {
      env: this.#environment(),
      encoding: 'utf8',
    });
  }

  /** Resolves when it listens. */
  async start(...flags: string[]): Promise<ServerProcess> {
    const server = await watch(this.launch(...flags));
    this.#started.push(server);
    return server;
  }

  /** The process alone, which may not listen yet. */
  launch(...flags: string[]): ChildProcess {
    const [node = '', ...args] = this.command(...flags);
    return spawn(node, args, {
      cwd: this.folder,
      env: this.#environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** In a pseudo-terminal, by the program `script`: what it writes is what a person would see, and its input what they type. */
  launchInTerminal(...flags: string[]): ChildProcess {
    const command = this.command(...flags).map((word) => `'${word}'`);
    return spawn('script', ['-qec', `exec ${command.join(' ')}`, '/dev/null'], {
      cwd: this.folder,
      env: { ...this.#environment(), SHELL: '/bin/sh' },
      stdio: 'pipe',
    });
  }

  command(...flags: string[]): string[] {
    return [this.node, program, 'serve', '--port', '0', '--database', this.database, ...flags];
  }

  async close(): Promise<void> {
    await Promise.all(this.#started.map((server) => server.stop()));
    this.remove();
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #environment(): NodeJS.ProcessEnv {
    return { ...this.environment, PATH: process.env.PATH, HOME: this.folder };
  }
}

async function watch(child: ChildProcess): Promise<ServerProcess> {
  let output = '';
  let log = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const exited = new Promise<number | undefined>((resolve) => {
    child.once('exit', (code) => resolve(code ?? undefined));
  });
  const ready = () => /listens on (\S+)|works for its fleet/.exec(output);
  await waitUntil(() => {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}:\n${log}`);
    return ready() !== null;
  });
  const pid = child.pid as number;
  return {
    url: ready()?.[1] ?? '',
    pid,
    enginePid: () => childrenOf(pid)[0] as number,
    output: () => output,
    log: () => log,
    signal: (name) => child.kill(name),
    exited,
    async stop() {
      // Killed without a word, it takes its engine with it: that one notices the broken connection.
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Processes whose parent it is. */
export function childrenOf(pid: number): number[] {
  return execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([child, parent]) => (parent === pid && child !== undefined ? [child] : []));
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Asks again and again; the test's own limit ends what never comes true. */
export async function waitUntil(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10);
}

/** The engine's own numbers, with an admin key. One that is busy may leave the server without them for a moment. */
export async function engineStats({ url }: ServerProcess, adminKey: string): Promise<EngineStats> {
  for (;;) {
    const response = await fetch(`${url}/admin/stats`, { headers: { authorization: `Bearer ${adminKey}` } });
    const { engines } = (await response.json()) as { engines: { stats?: EngineStats }[] };
    const stats = engines[0]?.stats;
    if (stats !== undefined) return stats;
    await sleep(10);
  }
}

/** Memory of a process that is really there. */
export function residentBytes(pid: number): number {
  return 1024 * Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' }));
}
