import { beforeEach, describe, expect, it } from 'vitest';
import { describeStores } from '../../test/support/store-homes.ts';
import { BatchLines } from './batch-lines.ts';
import type { LineAnswer } from './batch-record.ts';
import { BatchStore } from './batch-store.ts';
import type { Database } from './database.ts';
import { reportUsage } from './usage-report.ts';

const NOW_MS = Date.UTC(2026, 1, 1);
const LEASE_MS = 1000;
const lease = (owner: string, nowMs = NOW_MS) => ({ owner, nowMs, untilMs: nowMs + LEASE_MS });
const answer = (text: string, succeeded = true): LineAnswer => ({
  text,
  succeeded,
  usage: { promptTokens: 5, cachedTokens: 0, completionTokens: 2, failed: !succeeded },
});

const some = [1, 2, 4].map((line) => ({ line, customId: `c${line}`, body: `{"n":${line}}` }));

describeStores('lines of a batch', (home) => {
  let database: Database;
  let store: BatchStore;
  let lines: BatchLines;
  let batchId: string;
  const order = {
    endpoint: '/v1/completions',
    inputFileId: 'file-1',
    metadata: undefined,
    expiresMs: NOW_MS + 1e6,
    outputSeconds: undefined,
  };

  beforeEach(async () => {
    database = await home.open();
    store = new BatchStore(database);
    lines = new BatchLines(database);
    batchId = (await store.create('key_a', order, NOW_MS)).id;
    await store.claim(batchId, 'validating', lease('reader'));
    await lines.add(batchId, some, 'reader');
    await store.begin(batchId, some.length, 'reader', NOW_MS);
  });

  const numbers = async (owner: string, count: number, nowMs = NOW_MS) =>
    (await lines.take(batchId, count, lease(owner, nowMs))).map(({ line }) => line);

  const usedRequests = async () =>
    (await reportUsage(database, {})).reduce((sum, { requests }) => sum + requests, 0);

  describe('lines that are read in', () => {
    const stateOf = async (id: string) => (await store.find('key_a', id))?.state;

    it('are those of one reader: who lost the batch to another adds and forgets nothing, and does not begin it', async () => {
      const { id } = await store.create('key_a', order, NOW_MS);
      await store.claim(id, 'validating', lease('a'));
      expect(await lines.add(id, some.slice(0, 1), 'a')).toBe(true);
      await store.claim(id, 'validating', lease('b', NOW_MS + LEASE_MS));
      expect(await lines.add(id, some.slice(1), 'a')).toBe(false);
      expect(await lines.forgetRead(id, 5, 'a')).toBe(false);
      expect(await store.begin(id, 1, 'a', NOW_MS)).toBe(false);
      expect(await lines.settled(id, 0, 5)).toHaveLength(1);
      expect(await lines.forgetRead(id, 5, 'b')).toBe(true);
      expect(await lines.add(id, some, 'b')).toBe(true);
      expect(await store.begin(id, some.length, 'b', NOW_MS)).toBe(true);
      expect(await lines.settled(id, 0, 5)).toHaveLength(some.length);
    });

    it('begin when all are there, and are to be read again where some are missing', async () => {
      const { id } = await store.create('key_a', order, NOW_MS);
      await store.claim(id, 'validating', lease('a'));
      await lines.add(id, some.slice(1), 'a');
      expect(await store.begin(id, some.length, 'a', NOW_MS)).toBe(false);
      expect(await stateOf(id)).toBe('validating');
      await lines.add(id, some.slice(0, 1), 'a');
      expect(await store.begin(id, some.length, 'a', NOW_MS)).toBe(true);
      expect(await stateOf(id)).toBe('in_progress');
    });

    it('and lines that are lent have owners who can be asked for', async () => {
      const { id } = await store.create('key_a', order, NOW_MS);
      await store.claim(id, 'validating', lease('a'));
      await numbers('b', 1);
      expect(await lines.owners()).toEqual(expect.arrayContaining(['a', 'b']));
      await lines.giveBackAll('b');
      expect(await lines.owners()).not.toContain('b');
    });
  });

  describe('a line', () => {
    it('is lent to one at a time, in order', async () => {
      const [first] = await lines.take(batchId, 1, lease('a'));
      expect(first).toEqual({ batchId, line: 1, customId: 'c1', body: '{"n":1}', attempts: 1 });
      expect(await numbers('b', 5)).toEqual([2, 4]);
      expect(await numbers('c', 5)).toEqual([]);
    });

    it('is taken by another once its borrower has not renewed it in time', async () => {
      await numbers('a', 2);
      await lines.renew([{ batchId, line: 2 }], lease('a', NOW_MS + LEASE_MS));
      expect(await numbers('b', 5, NOW_MS + LEASE_MS)).toEqual([1, 4]);
      expect(await numbers('b', 5, NOW_MS + 2 * LEASE_MS)).toEqual([1, 2, 4]);
    });

    it('comes back at once where its borrower is gone, and later where it is to wait', async () => {
      await numbers('a', 2);
      await lines.giveBackAll('b');
      expect(await numbers('a', 1)).toEqual([4]);
      await lines.giveBackAll('a');
      await lines.giveBack({ batchId, line: 1 }, 'a', 0, false);
      const [again] = await lines.take(batchId, 1, lease('a'));
      expect(again).toMatchObject({ line: 1, attempts: 2 });
      await lines.giveBack({ batchId, line: 1 }, 'a', NOW_MS + 5, false);
      expect(await numbers('b', 5)).toEqual([2, 4]);
      const [later] = await lines.take(batchId, 1, lease('b', NOW_MS + 5));
      expect(later).toMatchObject({ line: 1, attempts: 2 });
    });

    it('is answered once, by whoever is first, and counts once', async () => {
      await numbers('a', 1);
      await numbers('b', 1, NOW_MS + LEASE_MS);
      expect(await lines.answer({ batchId, line: 1 }, 'key_a', answer('late but first'), NOW_MS)).toBe(true);
      expect(await lines.answer({ batchId, line: 1 }, 'key_a', answer('second', false), NOW_MS)).toBe(false);
      expect(await store.find('key_a', batchId)).toMatchObject({ total: 3, completed: 1, failed: 0 });
      expect(await usedRequests()).toBe(1);
      const [first] = await lines.settled(batchId, 0, 1);
      expect(first).toEqual({ line: 1, customId: 'c1', answer: 'late but first', succeeded: true });
      expect(await numbers('c', 5, NOW_MS + 9 * LEASE_MS)).toEqual([2, 4]);
    });

    it('takes no answer once its batch ends', async () => {
      await numbers('a', 3);
      await store.cancel(batchId, NOW_MS);
      expect(await lines.answer({ batchId, line: 1 }, 'key_a', answer('late'), NOW_MS)).toBe(false);
      expect(await store.find('key_a', batchId)).toMatchObject({ state: 'cancelling', completed: 0 });
      expect(await usedRequests()).toBe(0);
    });
  });

  describe('a batch', () => {
    it('goes through its states once each', async () => {
      expect(await store.begin(batchId, 9, 'reader', NOW_MS)).toBe(false);
      expect(await store.finalize(batchId, 'completed', NOW_MS)).toBe(true);
      expect(await store.finalize(batchId, 'expired', NOW_MS)).toBe(false);
      expect(await store.cancel(batchId, NOW_MS)).toBe(false);
      const files = { outputFileId: undefined, errorFileId: undefined, expiresMs: undefined };
      expect(await store.finish(batchId, 'completed', files, NOW_MS)).toBe(true);
      expect(await store.finish(batchId, 'completed', files, NOW_MS)).toBe(false);
      expect(await store.open()).toEqual([]);
      expect(await lines.leftovers()).toEqual([batchId]);
      while (await lines.forget(batchId, 2));
      expect(await lines.leftovers()).toEqual([]);
    });

    it('is one owner’s to work on until its lease is over', async () => {
      expect(await store.claim(batchId, 'in_progress', lease('a'))).toBe(true);
      expect(await store.claim(batchId, 'in_progress', lease('a'))).toBe(true);
      expect(await store.claim(batchId, 'in_progress', lease('b'))).toBe(false);
      expect(await store.claim(batchId, 'validating', lease('a'))).toBe(false);
      expect(await store.claim(batchId, 'in_progress', lease('b', NOW_MS + LEASE_MS))).toBe(true);
    });
  });
});
