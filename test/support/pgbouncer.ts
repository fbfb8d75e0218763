// A real PgBouncer before a Postgres for tests: it lends a connection for one transaction, and no longer. Where it is not
// installed, tests that need it are skipped, and say why.

import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { asNobody, freePort, NOBODY } from './postgres.ts';

/** Debian keeps it off the PATH of users. */
const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
const program = folders.map((folder) => join(folder, 'pgbouncer')).find((path) => existsSync(path));

export const missingPgBouncer = program === undefined ? 'no pgbouncer on the PATH' : undefined;

export class PgBouncer {
  readonly #folder: string;
  readonly #port: number;
  readonly #process: ChildProcess;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#port = port;
    this.#process = spawn(program as string, ['-q', join(folder, 'pgbouncer.ini')], {
      ...asNobody,
      stdio: 'ignore',
    });
  }

  /** `address`: of a database of the server; `connections`: how many it holds there for all clients together. */
  static async start(address: string, connections: number): Promise<PgBouncer> {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-pgbouncer-'));
    const { hostname, port: serverPort, username } = new URL(address);
    const port = await freePort();
    const users = join(folder, 'users');
    writeFileSync(users, `"${username}" ""\n`);
    writeFileSync(
      join(folder, 'pgbouncer.ini'),
      `[databases]
* = host=${hostname} port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${connections}
max_client_conn = 500
query_wait_timeout = 2
server_login_retry = 1
`,
    );
    if ('uid' in asNobody) for (const path of [folder, users]) chownSync(path, NOBODY, NOBODY);
    const bouncer = new PgBouncer(folder, port);
    await bouncer.#untilUp(bouncer.through(address));
    return bouncer;
  }

  /** The way to that database by this one. */
  through(address: string): string {
    const url = new URL(address);
    url.port = String(this.#port);
    return url.href;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    if (this.#process.exitCode === null && this.#process.kill('SIGKILL')) await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #untilUp(address: string): Promise<void> {
    for (;;) {
      if (this.#process.exitCode !== null) throw new Error('PgBouncer did not start');
      const client = new pg.Client({ connectionString: address });
      client.on('error', () => {});
      try {
        await client.connect();
        await client.end();
        return;
      } catch {
        await sleep(20);
      }
    }
  }
}
