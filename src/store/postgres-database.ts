// A Postgres database: connected, checked, migrated, and reconnected after a loss. Several gateways may share it.

import { setTimeout as sleep } from 'node:timers/promises';
import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type { Pool, PoolClient } from 'pg';
import { type Database, inTime, PATIENCE_MS, retryWhileBusy, StoreError } from './database.ts';
import { explainPostgres } from './database-failures.ts';
import { MIGRATIONS, postgresText } from './migrations.ts';
import { readAddress, withoutPassword } from './postgres-address.ts';
import { loadKysely } from './query-builder.ts';
import type { Schema } from './schema.ts';

const CONNECT_MS = 3000;
/** A slower statement is lost, and its connection with it. */
const STATEMENT_MS = 20_000;
const KEYS_VERSION_MS = 500;
const RECONNECT_MS = 250;
const CLOSE_MS = 2000;
const WHOLE_NUMBERS = [20, 1700];

interface Patience {
  readonly patienceMs: number;
  readonly onWait: (problem: Error) => void;
}

interface PostgresOptions extends Patience {
  /** At most. */
  readonly connections: number;
}

export async function openPostgres(location: string, options: PostgresOptions): Promise<Database> {
  const name = withoutPassword(location);
  const kysely = loadKysely();
  const pg = await loadPg();
  const pool = new pg.Pool({
    ...readAddress(location),
    application_name: 'chairlift',
    max: options.connections,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: STATEMENT_MS,
    keepAlive: true,
    types: {
      getTypeParser: (oid, format) =>
        WHOLE_NUMBERS.includes(oid) ? Number : pg.types.getTypeParser(oid, format),
    },
  });
  // A broken idle connection is replaced when one is needed.
  pool.on('error', () => {});
  const connections = explaining(name, pool);
  try {
    await untilReachable(options, () => migratePostgres(name, connections));
  } catch (error) {
    await pool.end();
    throw error;
  }
  const tables = new kysely.Kysely<Schema>({ dialect: new kysely.PostgresDialect({ pool: connections }) });
  return {
    kind: 'postgres',
    name,
    tables,
    nowMs: async (within = tables) => {
      const { rows } = await kysely.sql<{ now_ms: number }>`
        select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms`.execute(within);
      return (rows[0] as (typeof rows)[number]).now_ms;
    },
    keysVersion: () => inTime(name, KEYS_VERSION_MS, keysVersion(connections)),
    change: (action, patienceMs = PATIENCE_MS) =>
      retryWhileBusy(() => tables.transaction().execute(action), patienceMs),
    // A commit is durable, unless the server is configured otherwise.
    sync: async () => {},
    close: () => inTime(name, CLOSE_MS, pool.end()),
  };
}

async function loadPg() {
  try {
    return (await import('pg')).default;
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
    if (!missing) throw error;
    throw new StoreError('refused', 'Postgres needs the package pg. Install it: npm install pg', error);
  }
}

/** A server that starts together with this one may need a while. */
async function untilReachable({ patienceMs, onWait }: Patience, action: () => Promise<void>): Promise<void> {
  const endMs = performance.now() + patienceMs;
  for (let told = false; ; told = true) {
    try {
      return await action();
    } catch (error) {
      const passing =
        error instanceof StoreError && (error.fault === 'unreachable' || error.fault === 'busy');
      if (!passing || performance.now() >= endMs) throw error;
      if (!told) onWait(error);
      await sleep(RECONNECT_MS);
    }
  }
}

async function keysVersion(connections: PostgresPool): Promise<number> {
  const client = await connections.connect();
  try {
    const { rows } = await client.query<{ version: number }>('select version from key_version', []);
    return rows[0]?.version ?? 0;
  } finally {
    client.release();
  }
}

function explaining(name: string, pool: Pool): PostgresPool {
  const explained = async <Result>(action: Promise<Result>): Promise<Result> => {
    try {
      return await action;
    } catch (error) {
      throw explainPostgres(name, error);
    }
  };
  const lend = (client: PoolClient): PostgresPoolClient => {
    let lost: Error | undefined;
    const onLost = (error: Error) => {
      lost ??= error;
    };
    client.on('error', onLost);
    const query = async (text: string, parameters: readonly unknown[]) => {
      try {
        return await explained(client.query(text, parameters.map(withoutNul)));
      } catch (error) {
        if (error instanceof StoreError && error.fault === 'unreachable') onLost(error);
        throw error;
      }
    };
    return {
      // Cursors, the other use of `query`, are never opened.
      query: query as unknown as PostgresPoolClient['query'],
      release: () => {
        client.off('error', onLost);
        client.release(lost);
      },
    };
  };
  return {
    connect: async () => lend(await explained(pool.connect())),
    end: () => pool.end(),
  };
}

/** Texts of Postgres cannot hold NUL. */
function withoutNul(value: unknown): unknown {
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\u{fffd}') : value;
}

/** "CLft" in ASCII. */
const LOCK = 0x434c6674;

const MARK =
  'create table chairlift_schema (version bigint not null); insert into chairlift_schema values (0)';

async function migratePostgres(name: string, connections: PostgresPool): Promise<void> {
  const client = await connections.connect();
  const execute = async (text: string) => {
    await client.query(text, []);
  };
  try {
    await execute('begin');
    try {
      await execute(`select pg_advisory_xact_lock(${LOCK})`);
      const version = await checkedVersion(name, client);
      if (version === undefined) await execute(MARK);
      for (const step of MIGRATIONS.slice(version)) await execute(postgresText(step));
      if (version !== MIGRATIONS.length)
        await execute(`update chairlift_schema set version = ${MIGRATIONS.length}`);
      await execute('commit');
    } catch (error) {
      await execute('rollback').catch(() => {});
      throw error;
    }
  } finally {
    client.release();
  }
}

/** Undefined for an empty database. */
async function checkedVersion(name: string, client: PostgresPoolClient): Promise<number | undefined> {
  if (!(await isOurs(client))) {
    if (!(await hasTables(client))) return undefined;
    throw new StoreError(
      'foreign',
      `${name} has tables of another program. Make a database for Chairlift alone and give its address.`,
    );
  }
  const { rows } = await client.query<{ version: number }>('select version from chairlift_schema', []);
  const version = rows[0]?.version ?? 0;
  if (version <= MIGRATIONS.length) return version;
  const versions = `version ${version}, this program knows ${MIGRATIONS.length}`;
  throw new StoreError(
    'newer',
    `${name} was written by a newer Chairlift (${versions}). Upgrade, or use another database.`,
  );
}

async function isOurs(client: PostgresPoolClient): Promise<boolean> {
  const text = `select 1 from pg_tables where schemaname = current_schema() and tablename = 'chairlift_schema'`;
  return (await client.query(text, [])).rows.length > 0;
}

/** Tables of extensions do not count. */
async function hasTables(client: PostgresPoolClient): Promise<boolean> {
  const text = `
    select 1 from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
      and not exists (select 1 from pg_depend where objid = pg_class.oid and deptype = 'e')
    limit 1`;
  return (await client.query(text, [])).rows.length > 0;
}
