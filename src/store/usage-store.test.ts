import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import Libsql from 'libsql';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import { describeStores } from '../../test/support/store-homes.ts';
import { type Database, StoreError } from './database.ts';
import { openDatabase } from './open-database.ts';
import type { RequestUsage } from './usage-batch.ts';
import { reportUsage, utcDay } from './usage-report.ts';
import { UsageStore } from './usage-store.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const MIDNIGHT_MS = Date.UTC(2026, 1, 1);
const one: RequestUsage = { promptTokens: 10, cachedTokens: 4, completionTokens: 3, failed: false };
const onProblem = vi.fn();

describe('utcDay', () => {
  it('turns at midnight in UTC, wherever the machine is', () => {
    expect(utcDay(MIDNIGHT_MS - 1)).toBe('2026-01-31');
    expect(utcDay(MIDNIGHT_MS)).toBe('2026-02-01');
    expect(utcDay(MIDNIGHT_MS + DAY_MS - 1)).toBe('2026-02-01');
  });
});

describeStores('usage', (home) => {
  let database: Database;
  let usage: UsageStore;

  beforeEach(async () => {
    database = await home.open();
    usage = new UsageStore(database, onProblem);
    onProblem.mockReset();
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** The next change fails, and has been made or not. */
  function loseNextChange(when: 'lost before' | 'lost after'): void {
    const { change } = database;
    vi.spyOn(database, 'change').mockImplementationOnce(async (action, patienceMs) => {
      if (when === 'lost after') await change(action, patienceMs);
      throw new Error(when);
    });
  }

  /** Tried until others are no longer in the way. */
  async function written(store: UsageStore): Promise<void> {
    for (;;) {
      try {
        return await store.flush();
      } catch (error) {
        if (!(error instanceof StoreError && error.fault === 'busy')) throw error;
        await sleep(5);
      }
    }
  }

  describe('record', () => {
    it('counts by key and by the day the request ended', async () => {
      usage.record('a', one, MIDNIGHT_MS - 1);
      usage.record('a', { ...one, failed: true }, MIDNIGHT_MS);
      usage.record('a', one, MIDNIGHT_MS + 5);
      usage.record('b', one, MIDNIGHT_MS);
      const single = { requests: 1, promptTokens: 10, cachedTokens: 4, completionTokens: 3, errors: 0 };
      expect(await usage.report({})).toEqual([
        { keyId: 'a', day: '2026-01-31', ...single },
        {
          keyId: 'a',
          day: '2026-02-01',
          requests: 2,
          promptTokens: 20,
          cachedTokens: 8,
          completionTokens: 6,
          errors: 1,
        },
        { keyId: 'b', day: '2026-02-01', ...single },
      ]);
    });

    it('writes nothing at once, and all of it in one change within a second, or a tenth in Postgres', async () => {
      const withinMs = database.kind === 'postgres' ? 100 : 1000;
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      const change = vi.spyOn(database, 'change');
      for (let count = 0; count < 500; count++) usage.record(`key ${count % 50}`, one, MIDNIGHT_MS);
      await vi.advanceTimersByTimeAsync(withinMs - 1);
      expect(change).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(1);
      expect(change).toHaveBeenCalledTimes(1);
      vi.useRealTimers();
      await usage.flush();
      const rows = await reportUsage(database, {});
      expect(rows.map(({ requests }) => requests)).toEqual(Array(50).fill(10));
      expect(change).toHaveBeenCalledTimes(1);
    });

    it('loses and doubles nothing, however recording, flushing and failures mix', async () => {
      const action = fc.oneof(
        {
          weight: 6,
          arbitrary: fc.record({
            key: fc.constantFrom('a', 'b', 'c'),
            tokens: fc.nat(1000),
            day: fc.nat(2),
            // Told of several times: under an id that is the same for all of these tokens.
            once: fc.boolean(),
          }),
        },
        { weight: 2, arbitrary: fc.constant('flush' as const) },
        { weight: 1, arbitrary: fc.constantFrom('lost before' as const, 'lost after' as const) },
      );
      // It would flush by itself what is to be lost here.
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      let run = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(action, { maxLength: 40 }), async (actions) => {
          run++;
          const expected = new Map<string, number>();
          const charged = new Set<string>();
          const record = (key: string, tokens: number, timeMs: number, requestId?: string) => {
            const slot = `${run} ${key} ${utcDay(timeMs)}`;
            const counts = requestId === undefined || !charged.has(requestId);
            expected.set(slot, (expected.get(slot) ?? 0) + (counts ? tokens : 0));
            const used = { ...one, promptTokens: tokens };
            if (requestId === undefined) usage.record(`${run} ${key}`, used, timeMs);
            else {
              charged.add(requestId);
              usage.recordOnce(requestId, `${run} ${key}`, used, timeMs);
            }
          };
          for (const step of actions) {
            if (step === 'flush') void usage.flush();
            else if (typeof step === 'string') {
              await usage.flush();
              record('a', 10, MIDNIGHT_MS);
              loseNextChange(step);
              await expect(usage.flush()).rejects.toThrow('lost');
            } else {
              const { key, tokens, day, once } = step;
              const requestId = once ? `${run} ${key} ${tokens} ${day}` : undefined;
              record(key, tokens, MIDNIGHT_MS + day * DAY_MS, requestId);
            }
          }
          const rows = await usage.report({ keyIds: ['a', 'b', 'c'].map((key) => `${run} ${key}`) });
          expect(new Map(rows.map((row) => [`${row.keyId} ${row.day}`, row.promptTokens]))).toEqual(expected);
        }),
        { numRuns: 60 },
      );
      vi.useRealTimers();
      await usage.close();
    });

    it('tries again by itself after a write that failed, and says so', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      usage.record('a', one, MIDNIGHT_MS);
      loseNextChange('lost before');
      await vi.advanceTimersByTimeAsync(1000);
      expect(onProblem).toHaveBeenCalledWith(new Error('lost before'));
      await vi.advanceTimersByTimeAsync(2000);
      vi.useRealTimers();
      while ((await reportUsage(database, {})).length === 0) await sleep(10);
      expect(await reportUsage(database, {})).toMatchObject([{ keyId: 'a', requests: 1 }]);
    });

    it('writes more keys than one statement takes', async () => {
      for (let key = 0; key < 5001; key++) usage.record(`key ${key}`, one, MIDNIGHT_MS);
      await usage.flush();
      expect(await reportUsage(database, {})).toHaveLength(5001);
    });

    it('counts a batch once that was written though nobody heard of it', async () => {
      usage.record('a', one, MIDNIGHT_MS);
      loseNextChange('lost after');
      await expect(usage.flush()).rejects.toThrow('lost after');
      usage.record('a', one, MIDNIGHT_MS);
      expect(await usage.report({})).toMatchObject([{ requests: 2 }]);
      await usage.flush();
      expect(await reportUsage(database, {})).toMatchObject([{ keyId: 'a', requests: 2 }]);
      // A batch that was heard of is not remembered.
      expect(await database.tables.selectFrom('usage_flush').selectAll().execute()).toHaveLength(1);
    });

    it('reports what may have been written once, while the database cannot be written', async () => {
      usage.record('a', one, MIDNIGHT_MS);
      loseNextChange('lost after');
      await expect(usage.flush()).rejects.toThrow('lost after');
      loseNextChange('lost before');
      usage.record('b', one, MIDNIGHT_MS);
      expect(await usage.report({})).toMatchObject([
        { keyId: 'a', requests: 1 },
        { keyId: 'b', requests: 1 },
      ]);
    });
  });

  describe('recordOnce', () => {
    it('counts a request that two gateways tell of once, with the largest count, whichever comes first', async () => {
      const other = new UsageStore(await home.open(), onProblem);
      usage.recordOnce('request', 'a', one, MIDNIGHT_MS);
      usage.recordOnce('request', 'a', one, MIDNIGHT_MS);
      other.recordOnce('request', 'a', { ...one, promptTokens: 99 }, MIDNIGHT_MS);
      other.recordOnce('another', 'a', one, MIDNIGHT_MS);
      await usage.flush();
      await other.flush();
      other.recordOnce('request', 'a', { ...one, completionTokens: 900 }, MIDNIGHT_MS);
      other.recordOnce('request', 'a', one, MIDNIGHT_MS);
      await other.flush();
      usage.recordOnce('request', 'a', { ...one, promptTokens: 98 }, MIDNIGHT_MS);
      await usage.flush();
      expect(await reportUsage(database, {})).toMatchObject([
        { keyId: 'a', requests: 2, promptTokens: 109, completionTokens: 900 + one.completionTokens },
      ]);
    });

    it('also where they tell of it at the same moment, many times over', async () => {
      const others = await Promise.all(
        [1, 2, 3].map(async () => new UsageStore(await home.open(), onProblem)),
      );
      const stores = [usage, ...others];
      for (let round = 0; round < 10; round++) {
        for (const store of stores) {
          const completionTokens = 100 + stores.indexOf(store);
          for (let n = 0; n < 20; n++)
            store.recordOnce(`${round} ${n}`, `key ${n % 3}`, { ...one, completionTokens }, MIDNIGHT_MS);
        }
        await Promise.all(stores.map(written));
      }
      const rows = await reportUsage(database, {});
      expect(rows.reduce((sum, { requests }) => sum + requests, 0)).toBe(200);
      expect(rows.reduce((sum, { completionTokens }) => sum + completionTokens, 0)).toBe(200 * 103);
    });
  });

  describe('written', () => {
    it('is known when all of it is, and soon where it cannot be', async () => {
      usage.record('a', one, MIDNIGHT_MS);
      await usage.written(60_000);
      expect(await reportUsage(database, {})).toMatchObject([{ keyId: 'a', requests: 1 }]);
      const { change } = database;
      let goOn = () => {};
      const held = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      vi.spyOn(database, 'change').mockImplementationOnce((...given) => held.then(() => change(...given)));
      usage.record('a', one, MIDNIGHT_MS);
      await usage.written(20);
      expect(await reportUsage(database, {})).toMatchObject([{ requests: 1 }]);
      goOn();
      await written(usage);
      expect(await reportUsage(database, {})).toMatchObject([{ requests: 2 }]);
    });

    it('is not waited for where writing has failed before', async () => {
      const problem = vi.fn();
      const store = new UsageStore(database, problem);
      vi.spyOn(database, 'change').mockRejectedValueOnce(new Error('lost'));
      store.record('a', one, MIDNIGHT_MS);
      await eventually(() => expect(problem).toHaveBeenCalled());
      const flush = vi.spyOn(store, 'flush');
      await store.written(60_000);
      expect(flush).not.toHaveBeenCalled();
      await written(store);
    });
  });

  describe('report', () => {
    it('keeps to the keys and days asked for, both ends included', async () => {
      for (const key of ['a', 'b']) {
        for (let day = 0; day < 4; day++) usage.record(key, one, MIDNIGHT_MS + day * DAY_MS);
      }
      const rows = await usage.report({ keyIds: ['b'], fromDay: '2026-02-02', toDay: '2026-02-03' });
      expect(rows.map(({ keyId, day }) => `${keyId} ${day}`)).toEqual(['b 2026-02-02', 'b 2026-02-03']);
      expect(await usage.report({ keyIds: [] })).toEqual([]);
    });
  });

  describe('across restarts', () => {
    it('adds to what the day had, and gives the tokens that daily limits start from', async () => {
      for (let start = 1; start <= 3; start++) {
        const file = await home.open();
        const counted = new UsageStore(file, onProblem);
        counted.record('a', one, MIDNIGHT_MS + start);
        counted.record('a', one, MIDNIGHT_MS - start);
        expect(await counted.tokensOfDays(1, MIDNIGHT_MS)).toEqual(new Map([['a', [13 * start]]]));
        expect(await counted.tokensOfDays(1, MIDNIGHT_MS + DAY_MS)).toEqual(new Map());
        expect(await counted.tokensOfDays(2, MIDNIGHT_MS + DAY_MS)).toEqual(
          new Map([['a', [13 * start, 0]]]),
        );
        await counted.close();
        await file.close();
      }
    });
  });
});

describe('usage while another connection holds its file', () => {
  let folder: string;
  let file: Database;
  let holder: Libsql.Database;
  let counted: UsageStore;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'chairlift-usage-'));
    file = await openDatabase(join(folder, 'a.db'));
    counted = new UsageStore(file, onProblem);
    counted.record('a', one, MIDNIGHT_MS);
    await counted.flush();
    holder = new Libsql(join(folder, 'a.db'));
    holder.exec('begin exclusive');
  });

  afterEach(async () => {
    holder.close();
    await file.close();
    rmSync(folder, { recursive: true });
  });

  it('all is counted, reported and written in the end', async () => {
    counted.record('a', one, MIDNIGHT_MS);
    counted.record('b', one, MIDNIGHT_MS + DAY_MS);
    await expect(counted.flush()).rejects.toMatchObject({ fault: 'busy' });
    const requests = async () =>
      (await counted.report({})).map((row) => `${row.keyId} ${row.day} ${row.requests}`);
    expect(await requests()).toEqual(['a 2026-02-01 2', 'b 2026-02-02 1']);
    expect(await counted.tokensOfDays(1, MIDNIGHT_MS)).toEqual(new Map([['a', [26]]]));
    holder.exec('rollback');
    await counted.flush();
    expect((await reportUsage(file, {})).map(({ requests }) => requests)).toEqual([2, 1]);
    expect(await requests()).toEqual(['a 2026-02-01 2', 'b 2026-02-02 1']);
  });

  it('each try fails at once, and none keeps the next from what was written meanwhile', async () => {
    for (let n = 0; n < 20; n++) {
      counted.record('a', one, MIDNIGHT_MS);
      // Twenty waits of two seconds would exceed the limit of a test.
      await expect(counted.flush()).rejects.toMatchObject({ fault: 'busy' });
    }
    holder.exec("update key_usage set requests = 100 where key_id = 'a'");
    holder.exec('commit');
    await counted.flush();
    expect(await counted.report({})).toMatchObject([{ keyId: 'a', requests: 120 }]);
  });

  it('closing waits until it is free', async () => {
    counted.record('a', one, MIDNIGHT_MS);
    const closed = counted.close();
    setTimeout(() => holder.exec('rollback'), 100);
    await closed;
    expect(await reportUsage(file, {})).toMatchObject([{ requests: 2 }]);
  });
});
