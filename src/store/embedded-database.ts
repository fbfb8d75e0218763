// The embedded database: one file, opened, checked and migrated. Several processes may have it open.

import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { SqliteDatabase } from 'kysely';
import type Libsql from 'libsql';
import { type Database, IN_MEMORY, PATIENCE_MS, retryWhileBusy, StoreError } from './database.ts';
import { explainFailure } from './database-failures.ts';
import { embeddedText, MIGRATIONS } from './migrations.ts';
import { loadKysely } from './query-builder.ts';
import type { Schema } from './schema.ts';

// "CLft" in ASCII.
const APPLICATION_ID = 0x434c6674;
/** Statements run on the thread that serves requests: a lock must not stall it. */
const STALL_MS = 5;
const RETRY_MS = 10;

/** Creates the file and its folder where they are absent, readable by their owner alone. */
export async function openEmbedded(path: string): Promise<Database> {
  // Loaded here so that commands without a database start without them.
  const kysely = loadKysely();
  const libsql = await import('libsql');
  const handle = withExplanation(path, () => {
    if (path !== IN_MEMORY) makeFile(path);
    const opened = new libsql.default(path);
    try {
      prepareFile(path, opened);
      opened.exec(`pragma busy_timeout = ${STALL_MS}`);
      return opened;
    } catch (error) {
      opened.close();
      throw error;
    }
  });
  const version = handle.prepare('pragma data_version');
  const changes = new Changes({
    execute: (text) => withExplanation(path, () => handle.exec(text)),
    isOpen: () => handle.inTransaction,
  });
  const tables = new kysely.Kysely<Schema>({
    dialect: new kysely.SqliteDialect({ database: explaining(path, handle) }),
  });
  return {
    kind: 'embedded',
    name: path,
    tables,
    // A file has the clock of its machine.
    nowMs: async () => Date.now(),
    keysVersion: async () =>
      withExplanation(path, () => (version.all() as { data_version: number }[])[0]?.data_version ?? 0),
    change: (action, patienceMs = PATIENCE_MS) => changes.make(() => action(tables), patienceMs),
    sync: () => changes.inTurn(async () => withExplanation(path, () => checkpoint(handle))),
    /** The last connection that closes removes the side files. */
    close: async () => {
      try {
        withExplanation(path, () => leaveWal(handle));
      } finally {
        handle.close();
      }
    },
  };
}

function makeFile(path: string): void {
  makeFolder(dirname(resolve(path)));
  try {
    // SQLite gives its side files the mode of this one. A file that exists must not be opened here: closing it
    // again would drop the locks that other connections of this process hold on it.
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

/** Node's recursive mkdir retries for ever where the system has no room, as under /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!existsSync(path)) throw error;
  }
}

function prepareFile(path: string, handle: Libsql.Database): void {
  // Within SQLite's WAL, `normal` loses nothing when a process dies; `sync` is for power cuts.
  handle.exec(`pragma busy_timeout = ${PATIENCE_MS}; pragma synchronous = normal`);
  checkHealth(path, handle);
  useWal(handle);
  migrate(path, handle);
}

/** When several processes switch a new file to WAL at once, SQLite refuses all but one without waiting. */
function useWal(handle: Libsql.Database): void {
  const endMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      handle.exec('pragma journal_mode = wal');
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() >= endMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}

/**
 * Prepared statements keep SQLite's connection open until they are collected as garbage, so closing alone would leave
 * the side files. Only the last connection may leave WAL.
 */
function leaveWal(handle: Libsql.Database): void {
  try {
    handle.exec('pragma journal_mode = delete');
  } catch (error) {
    if (!isBusy(error)) throw error;
    checkpoint(handle);
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY';
}

function checkHealth(path: string, handle: Libsql.Database): void {
  const [report] = handle.prepare('pragma quick_check(1)').all() as { quick_check: string }[];
  if (report?.quick_check !== 'ok') throw explainFailure(path, { code: 'SQLITE_CORRUPT' });
}

/** When two processes open a new file at once, the second finds it migrated. */
function migrate(path: string, handle: Libsql.Database): void {
  handle.exec('begin immediate');
  try {
    const version = checkedVersion(path, handle);
    for (const step of MIGRATIONS.slice(version)) handle.exec(embeddedText(step));
    if (version < MIGRATIONS.length) {
      handle.exec(`pragma application_id = ${APPLICATION_ID}; pragma user_version = ${MIGRATIONS.length}`);
    }
    handle.exec('commit');
  } catch (error) {
    handle.exec('rollback');
    throw error;
  }
}

function checkedVersion(path: string, handle: Libsql.Database): number {
  const [row] = handle
    .prepare(
      `select user_version as version, application_id as application,
         (select count(*) from sqlite_schema) as tables
       from pragma_user_version, pragma_application_id`,
    )
    .all() as { version: number; application: number; tables: number }[];
  const { version, application, tables } = row ?? { version: 0, application: 0, tables: 0 };
  if (application !== APPLICATION_ID && tables > 0) {
    throw new StoreError('foreign', `${path} is a database of another program. Choose another path.`);
  }
  if (version > MIGRATIONS.length) {
    const versions = `version ${version}, this program knows ${MIGRATIONS.length}`;
    throw new StoreError(
      'newer',
      `${path} was written by a newer Chairlift (${versions}). Upgrade, or use another path.`,
    );
  }
  return version;
}

function checkpoint(handle: Libsql.Database): void {
  handle.prepare('pragma wal_checkpoint(passive)').all();
}

function withExplanation<T>(path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw explainFailure(path, error);
  }
}

type Statement = ReturnType<SqliteDatabase['prepare']>;

const MOST_KEPT = 200;

function explaining(path: string, handle: Libsql.Database): SqliteDatabase {
  const prepare = (text: string): Statement => {
    const statement = withExplanation(path, () => handle.prepare(text));
    return {
      reader: statement.reader,
      all: (parameters) => withExplanation(path, () => statement.all(parameters)),
      run: (parameters) => withExplanation(path, () => statement.run(parameters)),
      // One that is kept may be asked for again before all is read.
      iterate: (parameters) => handle.prepare(text).iterate(parameters),
    };
  };
  const close = () => handle.close();
  // In memory there is one connection, and nothing is ever locked: statements are prepared once.
  return path === IN_MEMORY ? { close, prepare: keptBy(prepare) } : { close, prepare };
}

function keptBy(prepare: (text: string) => Statement): (text: string) => Statement {
  const kept = new Map<string, Statement>();
  return (text) => {
    const known = kept.get(text) ?? prepare(text);
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(text, known);
    return known;
  };
}

interface Transactions {
  execute(text: string): void;
  /** Some failures end a transaction by themselves. */
  isOpen(): boolean;
}

/**
 * Changes one after the other, each in a transaction that has the file to itself. A statement of its own takes the lock:
 * the library never resets a statement that found the database locked. Until it is collected as garbage, SQLite takes it
 * for one still running, commits nothing after it, and keeps the connection at what it read then.
 */
class Changes {
  readonly #transactions: Transactions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  make<Result>(action: () => Promise<Result>, patienceMs: number): Promise<Result> {
    return retryWhileBusy(() => this.inTurn(() => this.#attempt(action)), patienceMs);
  }

  inTurn<Result>(action: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(action);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #attempt<Result>(action: () => Promise<Result>): Promise<Result> {
    this.#transactions.execute('begin immediate');
    try {
      const result = await action();
      this.#transactions.execute('commit');
      return result;
    } catch (error) {
      if (this.#transactions.isOpen()) this.#transactions.execute('rollback');
      throw error;
    }
  }
}
