// A real Postgres server for tests: its own, in a folder of its own, on a free port of loopback, and no safer than a test
// needs. Where its programs are missing, tests that need it are skipped, and say why.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { StoreError } from '../../src/store/database.ts';

const DEBIAN = '/usr/lib/postgresql';
const USER = 'chairlift';
export const NOBODY = 65534;

const run = promisify(execFile);

function findPrograms(): string | undefined {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ];
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}

const programs = findPrograms();

/** Why there is none; undefined where there is one. */
export const missingPostgres =
  programs === undefined ? `no Postgres: neither under ${DEBIAN} nor on the PATH` : undefined;

export class PostgresServer {
  readonly #folder: string;
  readonly port: number;
  #process: ChildProcess | undefined;
  #databases = 0;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.port = port;
  }

  static async start(): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-postgres-'));
    // Postgres refuses to run as root.
    if (process.getuid?.() === 0) chownSync(folder, NOBODY, NOBODY);
    chmodSync(folder, 0o700);
    const flags = ['--auth=trust', '--no-sync', '--encoding=UTF8', '--locale=C', `--username=${USER}`];
    await run(join(programs as string, 'initdb'), ['-D', join(folder, 'data'), ...flags], asNobody);
    const server = new PostgresServer(folder, await freePort());
    await server.go();
    return server;
  }

  /** Starts it again after it was stopped. */
  async go(): Promise<void> {
    const settings = {
      port: this.port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
      max_connections: 200,
      shared_buffers: '16MB',
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    this.#process = spawn(
      join(programs as string, 'postgres'),
      ['-D', join(this.#folder, 'data'), ...flags],
      { ...asNobody, stdio: 'ignore' },
    );
    for (;;) {
      if (this.#process.exitCode !== null) throw new Error('Postgres did not start');
      try {
        await this.execute('postgres', 'select 1');
        return;
      } catch {
        await sleep(20);
      }
    }
  }

  /** At once: connections break, and what was not committed is gone. */
  async halt(): Promise<void> {
    const stopping = this.#process;
    if (stopping === undefined || stopping.exitCode !== null) return;
    const ended = new Promise((resolve) => stopping.once('exit', resolve));
    stopping.kill('SIGINT');
    await ended;
    this.#process = undefined;
  }

  async stop(): Promise<void> {
    await this.halt();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  address(database: string, user = USER): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  /** A new, empty one; its address. */
  async createDatabase(): Promise<string> {
    const name = `test_${++this.#databases}`;
    await this.execute('postgres', `create database ${name}`);
    return this.address(name);
  }

  /** Runs statements in a database of it, by its name or address. */
  async execute(database: string, text: string): Promise<Record<string, unknown>[]> {
    const address = database.includes('://') ? database : this.address(database);
    const client = new pg.Client({ connectionString: address });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }
}

export const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** What is expected while the server is away. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof StoreError && error.fault === 'unreachable';
}
