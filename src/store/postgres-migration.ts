// Brings a Postgres database to the current schema. Of several gateways that start at once, one does it.

import type { PostgresPool, PostgresPoolClient } from 'kysely';
import { MIGRATIONS, postgresText } from './migrations.ts';
import { StoreError } from './store-error.ts';

/** "CLft" in ASCII: nobody else asks for this lock. */
const LOCK = 0x434c6674;

/** The table that says the schema is ours, and its version. */
const MARK =
  'create table chairlift_schema (version bigint not null); insert into chairlift_schema values (0)';

export async function migratePostgres(name: string, connections: PostgresPool): Promise<void> {
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

/** Undefined where there is nothing yet. */
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

/** Those that an extension has brought do not count. */
async function hasTables(client: PostgresPoolClient): Promise<boolean> {
  const text = `
    select 1 from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
      and not exists (select 1 from pg_depend where objid = pg_class.oid and deptype = 'e')
    limit 1`;
  return (await client.query(text, [])).rows.length > 0;
}
