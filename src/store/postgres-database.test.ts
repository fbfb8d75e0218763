import { afterEach, describe, expect, it, vi } from 'vitest';
import { missingPostgres } from '../../test/support/postgres.ts';
import { postgresHome } from '../../test/support/store-homes.ts';
import type { KeyRecord } from './key-record.ts';
import { KeyRing } from './key-ring.ts';
import { KeyStore } from './key-store.ts';
import { MIGRATIONS } from './migrations.ts';
import { openDatabase } from './open-database.ts';
import type { RequestUsage } from './usage-batch.ts';
import { reportUsage } from './usage-report.ts';
import { UsageStore } from './usage-store.ts';

const NOW_MS = Date.UTC(2026, 0, 31);
const one: RequestUsage = { promptTokens: 10, cachedTokens: 4, completionTokens: 3, failed: false };
const title = missingPostgres === undefined ? 'Postgres' : `Postgres (skipped: ${missingPostgres})`;

describe.skipIf(missingPostgres !== undefined)(title, () => {
  const { home, server } = postgresHome();
  const execute = (text: string) => server().execute(home.location(), text);

  afterEach(() => vi.restoreAllMocks());

  describe('the schema', () => {
    it('is made once, by whichever of several gateways is first', async () => {
      const opened = await Promise.all(Array.from({ length: 8 }, () => home.open()));
      for (const [n, database] of opened.entries()) {
        const made = await new KeyStore(database).createKey(
          { name: `key ${n}`, tier: 'low', limits: {} },
          NOW_MS,
        );
        expect(made.ok).toBe(true);
      }
      expect(await execute('select version from chairlift_schema')).toEqual([
        { version: String(MIGRATIONS.length) },
      ]);
    });

    it('has whole numbers that are large enough for any of ours, and texts in the order of their bytes', async () => {
      await home.open();
      const columns = await execute(`
        select distinct data_type, collation_name from information_schema.columns
        where table_schema = 'public' order by 1, 2`);
      expect(columns).toEqual([
        { data_type: 'bigint', collation_name: null },
        { data_type: 'bytea', collation_name: null },
        { data_type: 'double precision', collation_name: null },
        { data_type: 'text', collation_name: 'C' },
      ]);
    });

    it('comes from an older one without losing what was there', async () => {
      await home.open();
      await execute(`
        drop table usage_flush, charged_request, key_limit, limit_gateway, running_request, key_version,
          file, file_chunk, batch, batch_line, kept_request, kept_tokens, background_response cascade;
        alter table api_key drop column kv_share;
        drop type limit_standing cascade;
        drop function limit_drained, limit_day, limit_carried, limit_settle, limit_beat, limit_leave, count_key_change cascade;
        update chairlift_schema set version = 2;
        insert into key_usage values ('a', '2026-01-31', 1, 2, 3, 4, 5)`);
      expect(await reportUsage(await home.open(), {})).toMatchObject([{ keyId: 'a', requests: 1 }]);
    });
  });

  describe('a database that cannot be used', () => {
    const opening = (address: string) => openDatabase(address, { patienceMs: 0 });

    it('is refused where it belongs to another program, and left as it was', async () => {
      await execute('create table recipes (name text)');
      await expect(opening(home.location())).rejects.toMatchObject({ fault: 'foreign' });
      const tables = await execute("select tablename from pg_tables where schemaname = 'public'");
      expect(tables).toEqual([{ tablename: 'recipes' }]);
    });

    it('is refused where a newer version has written it', async () => {
      await home.open();
      await execute(`update chairlift_schema set version = ${MIGRATIONS.length + 1}`);
      await expect(opening(home.location())).rejects.toMatchObject({ fault: 'newer' });
    });

    it('is told to be made where it does not exist', async () => {
      await expect(opening(server().address('nowhere'))).rejects.toThrow(/nowhere does not exist.*createdb/);
    });

    it('is told to need another user or password', async () => {
      const address = server().address('postgres', 'stranger:secret');
      await expect(opening(address)).rejects.toMatchObject({ fault: 'refused' });
      await expect(opening(address)).rejects.toThrow(/stranger@127.*let this user in.*PGPASSWORD/);
      await expect(opening(address)).rejects.not.toThrow(/secret/);
    });

    it('is told to need rights, where its user may not make tables', async () => {
      await execute('create role guest login; revoke create on schema public from public');
      const address = home.location().replace('chairlift@', 'guest@');
      await expect(opening(address)).rejects.toThrow(/may not be used so: permission denied.*Grant/);
      await execute('drop role guest');
    });

    it('is told where it may only be read', async () => {
      const database = await home.open();
      const name = new URL(home.location()).pathname.slice(1);
      await server().execute('postgres', `alter database ${name} set default_transaction_read_only = on`);
      await server().execute(
        'postgres',
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
      );
      await vi.waitUntil(() =>
        new KeyStore(database).list().then(
          () => true,
          () => false,
        ),
      );
      const creating = new KeyStore(database).createKey({ name: 'a', tier: 'low', limits: {} }, NOW_MS);
      await expect(creating).rejects.toThrow(/may only be read.*primary/);
    });

    it('is told where nobody listens, where there is no such host, and where TLS is not spoken', async () => {
      await expect(opening('postgres://127.0.0.1:1/a')).rejects.toMatchObject({ fault: 'unreachable' });
      await expect(opening('postgres://127.0.0.1:1/a')).rejects.toThrow(/does not answer.*server runs/);
      await expect(opening('postgres://nowhere.invalid/a')).rejects.toMatchObject({ fault: 'unreachable' });
      const secured = opening(`${home.location()}?sslmode=require`);
      await expect(secured).rejects.toThrow(/speaks no TLS.*sslmode=disable/);
    });
  });

  describe('while the server is away', () => {
    it('a start waits for it, and says so', async () => {
      await server().halt();
      const onWait = vi.fn();
      const opening = openDatabase(home.location(), { patienceMs: 60_000, onWait });
      await vi.waitUntil(() => onWait.mock.calls.length > 0);
      await server().go();
      const database = await opening;
      expect(onWait).toHaveBeenCalledTimes(1);
      await database.close();
    });

    it('known keys open the door, unknown ones are not denied, and all is well when it is back', async () => {
      const database = await home.open();
      const store = new KeyStore(database);
      const create = async (name: string): Promise<{ key: string; record: KeyRecord }> => {
        const made = await store.createKey({ name, tier: 'high', limits: {} }, NOW_MS);
        if (!made.ok) throw new Error(made.message);
        return made;
      };
      const { key, record } = await create('a');
      const onProblem = vi.fn();
      const ring = await KeyRing.open(database, store, onProblem);
      await server().halt();
      for (const elapsedMs of [0, 2000, 60_000]) {
        expect(await ring.findByKey(key, NOW_MS + elapsedMs)).toEqual(record);
        expect(await ring.findByKey('cl-unknown', NOW_MS + elapsedMs)).toBe('unsure');
      }
      expect(onProblem).toHaveBeenCalledTimes(1);
      expect(onProblem.mock.lastCall?.[0]).toMatchObject({ fault: 'unreachable' });
      await expect(create('b')).rejects.toMatchObject({ fault: 'unreachable' });
      await server().go();
      const { key: another } = await create('b');
      expect(await ring.findByKey(another, NOW_MS + 70_000)).toBeDefined();
      expect(await ring.findByKey('cl-unknown', NOW_MS + 80_000)).toBeUndefined();
    });

    it('usage is kept, and written once', async () => {
      const database = await home.open();
      const usage = new UsageStore(database, () => {});
      usage.record('a', one, NOW_MS);
      await usage.flush();
      usage.record('a', one, NOW_MS);
      await server().halt();
      await expect(usage.flush()).rejects.toMatchObject({ fault: 'unreachable' });
      usage.record('a', one, NOW_MS);
      await expect(usage.flush()).rejects.toMatchObject({ fault: 'unreachable' });
      await server().go();
      await usage.flush();
      expect(await reportUsage(database, {})).toMatchObject([{ keyId: 'a', requests: 3 }]);
    });

    it('a connection that is lost before its commit loses nothing and counts nothing twice', async () => {
      const database = await home.open();
      const usage = new UsageStore(database, () => {});
      const { change } = database;
      vi.spyOn(database, 'change').mockImplementationOnce((action, patienceMs) =>
        change(async (tables) => {
          const result = await action(tables);
          await execute(
            'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()',
          );
          return result;
        }, patienceMs),
      );
      usage.record('a', one, NOW_MS);
      await expect(usage.flush()).rejects.toMatchObject({ fault: 'unreachable' });
      await usage.flush();
      expect(await reportUsage(database, {})).toMatchObject([{ keyId: 'a', requests: 1 }]);
    });
  });

  it('tells of keys that were changed by hand', async () => {
    const database = await home.open();
    const store = new KeyStore(database);
    const made = await store.createKey({ name: 'a', tier: 'low', limits: {} }, NOW_MS);
    if (!made.ok) throw new Error(made.message);
    const ring = await KeyRing.open(database, store, (error) => expect.fail(String(error)));
    await execute('update api_key set requests_per_minute = 7');
    expect(await ring.findByKey(made.key, NOW_MS)).toMatchObject({ limits: { requestsPerMinute: 7 } });
  });
});
