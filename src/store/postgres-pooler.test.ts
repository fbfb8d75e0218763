// Gateways that share a Postgres: how many connections they hold, alone and behind PgBouncer, which lends one for a transaction.

import { afterEach, describe, expect, it, vi } from 'vitest';
import { missingPgBouncer, PgBouncer } from '../../test/support/pgbouncer.ts';
import { missingPostgres } from '../../test/support/postgres.ts';
import { postgresHome } from '../../test/support/store-homes.ts';
import { BatchLines } from './batch-lines.ts';
import { BatchStore } from './batch-store.ts';
import type { Database } from './database.ts';
import { KeyRing } from './key-ring.ts';
import { KeyStore } from './key-store.ts';
import { LimitStore } from './limit-store.ts';
import { openDatabase } from './open-database.ts';
import { reportUsage } from './usage-report.ts';
import { UsageStore } from './usage-store.ts';

const GATEWAYS = 8;
const missing = missingPostgres ?? missingPgBouncer;
const onProblem = (error: unknown) => {
  throw error;
};

describe.skipIf(missingPostgres !== undefined)('connections to a Postgres', () => {
  const { home, server } = postgresHome();
  const closings: (() => Promise<unknown>)[] = [];

  afterEach(async () => {
    for (const close of closings.splice(0).reverse()) await close();
  });

  async function openMany(address: string, connections: number, count = GATEWAYS): Promise<Database[]> {
    const opening = Array.from({ length: count }, () =>
      openDatabase(address, { connections, patienceMs: 20_000 }),
    );
    const opened = await Promise.all(opening);
    for (const database of opened) closings.push(() => database.close());
    return opened;
  }

  async function sessions(): Promise<number> {
    const name = new URL(home.location()).pathname.slice(1);
    const [row] = await server().execute(
      'postgres',
      `select count(*)::int as sessions from pg_stat_activity where datname = '${name}'`,
    );
    return row?.sessions as number;
  }

  it.each([1, 3])('are %i at most, however much is asked at once', async (connections) => {
    const [database] = (await openMany(home.location(), connections, 1)) as [Database];
    const keys = new KeyStore(database);
    const seen: number[] = [];
    const making = Array.from({ length: 40 }, async (_, i) => {
      await keys.createKey({ name: `key ${i}`, tier: 'low', limits: {} }, 0);
      if (i % 10 === 0) seen.push(await sessions());
    });
    await Promise.all(making);
    expect(await keys.list()).toHaveLength(40);
    expect(Math.max(...seen)).toBe(connections);
  });

  const title = missing === undefined ? 'by PgBouncer' : `by PgBouncer (skipped: ${missing})`;
  describe.skipIf(missing !== undefined)(title, () => {
    /** Two connections for all gateways, each of which holds two to PgBouncer. */
    async function gateways(): Promise<Database[]> {
      const bouncer = await PgBouncer.start(home.location(), 2);
      closings.push(() => bouncer.stop());
      return openMany(bouncer.through(home.location()), 2);
    }

    it('are as few as it holds, and make the schema once', async () => {
      const opened = await gateways();
      await Promise.all(opened.map((database) => database.keysVersion()));
      expect(await sessions()).toBeLessThanOrEqual(2);
    });

    it('share keys, limits and usage', async () => {
      const opened = await gateways();
      const [first, last] = [opened[0], opened.at(-1)] as [Database, Database];
      const made = await new KeyStore(first).createKey({ name: 'a', tier: 'high', limits: {} }, 0);
      if (!made.ok) throw new Error(made.message);
      const ring = await KeyRing.open(last, new KeyStore(last), onProblem);
      expect(await ring.findByKey(made.key, 0)).toEqual(made.record);
      const limited = {
        keyId: made.record.id,
        limits: { requestsPerMinute: 5 },
        leastTokens: 1,
        expectedTokens: 1,
      };
      const asked = opened.map(async (database, i) => {
        const limits = new LimitStore(database, `gateway ${i}`);
        return limits.admit({ ...limited, requestId: `r${i}` });
      });
      expect((await Promise.all(asked)).filter(({ ok }) => ok)).toHaveLength(5);
      const used = { promptTokens: 10, cachedTokens: 4, completionTokens: 3, failed: false };
      await Promise.all(
        opened.map(async (database) => {
          const usage = new UsageStore(database, onProblem);
          usage.record(made.record.id, used, 0);
          await usage.close();
        }),
      );
      expect(await reportUsage(first, {})).toMatchObject([{ requests: GATEWAYS, promptTokens: 80 }]);
    });

    it('are lost with the server behind it, and back with it', async () => {
      const [database] = (await gateways()) as [Database];
      const keys = new KeyStore(database);
      await server().halt();
      await expect(keys.list()).rejects.toMatchObject({ fault: 'unreachable' });
      await server().go();
      await vi.waitUntil(() => keys.list().catch(() => undefined), { timeout: 30_000, interval: 100 });
    });

    it('take each line of a batch once', async () => {
      const opened = await gateways();
      const [first] = opened as [Database];
      const order = {
        endpoint: '/v1/completions',
        inputFileId: 'file-1',
        metadata: undefined,
        expiresMs: 1e9,
        outputSeconds: undefined,
      };
      const lease = (owner: string) => ({ owner, nowMs: 0, untilMs: 1e6 });
      const store = new BatchStore(first);
      const { id } = await store.create('key_a', order, 0);
      await store.claim(id, 'validating', lease('reader'));
      const lines = Array.from({ length: 40 }, (_, line) => ({ line, customId: `c${line}`, body: '{}' }));
      await new BatchLines(first).add(id, lines, 'reader');
      await store.begin(id, lines.length, 'reader', 0);
      const taken = opened.map((database, i) => new BatchLines(database).take(id, 7, lease(`runner ${i}`)));
      const numbers = (await Promise.all(taken)).flat().map(({ line }) => line);
      expect(new Set(numbers).size).toBe(numbers.length);
    });
  });
});
