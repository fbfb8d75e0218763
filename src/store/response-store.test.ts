import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeStores } from '../../test/support/store-homes.ts';
import type { Database } from './database.ts';
import { ResponseStore, type StoredItem } from './response-store.ts';

// Old ones are also forgotten by themselves, by the real clock.
const NOW_MS = Date.now();
const DAY_MS = 86_400_000;
const ROOM = { keepMs: 30 * DAY_MS, maxBytes: 1e6 };
const ANY = Number.POSITIVE_INFINITY;

describeStores('responses', (home) => {
  let database: Database;
  let store: ResponseStore;

  beforeEach(async () => {
    database = await home.open();
    store = open();
  });

  afterEach(async () => {
    await store.close();
  });

  function open(room = ROOM): ResponseStore {
    return new ResponseStore(database, room, (error) => expect.fail(String(error)));
  }

  async function save(
    id: string,
    { key = 'key_a', previous = undefined as string | undefined, nowMs = NOW_MS, text = '' } = {},
  ): Promise<void> {
    const item = (mark: string) => ({ id: `${mark}_${id}`, text }) as StoredItem;
    const response = { id, previousId: previous, input: [item('in')], output: [item('out')] };
    await store.save(key, { ...response, body: { id, status: 'completed' } }, nowMs);
  }

  async function ids(id: string, key = 'key_a'): Promise<readonly string[] | string> {
    const history = await store.history(key, id, ANY);
    return history.ok ? history.items.map((item) => item.id) : history.problem;
  }

  async function found(itemId: string, key = 'key_a'): Promise<StoredItem | undefined> {
    const result = await store.items(key, [itemId], ANY);
    return result.ok ? result.items.get(itemId) : undefined;
  }

  describe('a stored response', () => {
    it('comes back as it was', async () => {
      await save('r1', { text: 'ü "quoted"' });
      expect(await store.find('key_a', 'r1')).toEqual({
        body: { id: 'r1', status: 'completed' },
        output: [{ id: 'out_r1', text: 'ü "quoted"' }],
      });
      expect(await store.input('key_a', 'r1')).toEqual([{ id: 'in_r1', text: 'ü "quoted"' }]);
      expect(await found('out_r1')).toEqual({ id: 'out_r1', text: 'ü "quoted"' });
    });

    it('is nothing to another key', async () => {
      await save('r1');
      expect(await store.find('key_b', 'r1')).toBeUndefined();
      expect(await store.input('key_b', 'r1')).toEqual([]);
      expect(await found('out_r1', 'key_b')).toBeUndefined();
      expect(await ids('r1', 'key_b')).toBe('missing');
      expect(await store.remove('key_b', 'r1')).toBe(false);
      expect(await store.find('key_a', 'r1')).toBeDefined();
    });

    it('gives the latest of several items of one id, and none that are too large', async () => {
      for (const [at, text] of ['first', 'last'].entries()) {
        const input = [{ id: 'in', text } as StoredItem];
        const response = { id: `r${at}`, previousId: undefined, body: {}, input, output: [] };
        await store.save('key_a', response, NOW_MS + at);
      }
      expect(await found('in')).toEqual({ id: 'in', text: 'last' });
      expect(await store.items('key_a', ['in', 'nowhere'], 10)).toMatchObject({ problem: 'too-large' });
    });

    it('may have thousands of items', async () => {
      const input = Array.from({ length: 2500 }, (_, n) => ({ id: `in_${n}` }));
      await store.save('key_a', { id: 'r1', previousId: undefined, body: {}, input, output: [] }, NOW_MS);
      expect(await store.input('key_a', 'r1')).toEqual(input);
    });

    it('is there when the database is opened again', async () => {
      await save('r1');
      await store.close();
      await database.close();
      database = await home.open();
      store = open();
      expect(await ids('r1')).toEqual(['in_r1', 'out_r1']);
    });

    it('may be asked for by any text', async () => {
      await save('r1');
      for (const id of ['', '\0', '\ud800', "'; drop table response; --", 'x'.repeat(10_000)]) {
        expect(await store.find('key_a', id)).toBeUndefined();
        expect(await found(id)).toBeUndefined();
        expect(await store.remove('key_a', id)).toBe(false);
      }
    });

    it('may hold and be called anything', async () => {
      await save('r\0', { text: 'a\0b\ud800' });
      expect(await store.find('key_a', 'r\0')).toMatchObject({ output: [{ text: 'a\0b\ud800' }] });
    });
  });

  describe('a conversation', () => {
    it('is given from its beginning, each branch its own', async () => {
      await save('r1');
      await save('r2', { previous: 'r1' });
      await save('r3', { previous: 'r2' });
      await save('other', { previous: 'r1' });
      expect(await ids('r3')).toEqual(['in_r1', 'out_r1', 'in_r2', 'out_r2', 'in_r3', 'out_r3']);
      expect(await ids('other')).toEqual(['in_r1', 'out_r1', 'in_other', 'out_other']);
    });

    it('is not gone on with where a part of it was removed, or where it is too large', async () => {
      await save('r1', { text: 'x'.repeat(1000) });
      await save('r2', { previous: 'r1' });
      expect(await store.history('key_a', 'r2', 1000)).toMatchObject({ ok: false, problem: 'too-large' });
      expect(await store.remove('key_a', 'r1')).toBe(true);
      expect(await store.history('key_a', 'r2', ANY)).toEqual({ ok: false, problem: 'missing', id: 'r1' });
      expect(await store.find('key_a', 'r2')).toBeDefined();
    });

    it('leaves nothing when all of it was removed', async () => {
      await save('r1');
      await save('r2', { previous: 'r1' });
      await store.remove('key_a', 'r1');
      await store.remove('key_a', 'r2');
      for (const table of ['conversation', 'response', 'response_item'] as const) {
        expect(await database.tables.selectFrom(table).selectAll().execute()).toEqual([]);
      }
    });

    it('is not joined by what only claims to go on with it', async () => {
      await save('r1');
      await save('r2', { previous: 'r1', key: 'key_b' });
      expect(await ids('r1')).toEqual(['in_r1', 'out_r1']);
      expect(await ids('r2', 'key_b')).toBe('missing');
    });
  });

  describe('pruning', () => {
    it('forgets what nobody has gone on with for too long, and keeps what somebody has', async () => {
      await save('old');
      await save('root');
      await save('leaf', { previous: 'root', nowMs: NOW_MS + 20 * DAY_MS });
      await store.prune(NOW_MS + 31 * DAY_MS);
      expect(await store.find('key_a', 'old')).toBeUndefined();
      expect(await ids('leaf')).toHaveLength(4);
      expect(await found('in_old')).toBeUndefined();
    });

    it('takes from whoever keeps most, the oldest first', async () => {
      await save('small', { key: 'key_b', nowMs: NOW_MS - DAY_MS });
      for (let n = 0; n < 40; n++) await save(`r${n}`, { text: 'x'.repeat(50_000), nowMs: NOW_MS + n });
      await store.prune(NOW_MS + 100);
      expect(await store.find('key_b', 'small')).toBeDefined();
      expect(await store.find('key_a', 'r0')).toBeUndefined();
      expect(await store.find('key_a', 'r39')).toBeDefined();
      const rows = await database.tables.selectFrom('response').select(['bytes']).execute();
      const total = rows.reduce((sum, { bytes }) => sum + bytes, 0);
      expect(total).toBeLessThanOrEqual(ROOM.maxBytes);
      expect(total).toBeGreaterThan(0.8 * ROOM.maxBytes);
    });

    it('comes by itself when much was written', async () => {
      await store.close();
      store = open({ keepMs: Number.MAX_SAFE_INTEGER, maxBytes: 10_000 });
      for (let n = 0; n < 50; n++) await save(`r${n}`, { text: 'x'.repeat(1000), nowMs: NOW_MS + n });
      await store.prune(NOW_MS + 100);
      const rows = await database.tables.selectFrom('response').select('id').execute();
      expect(rows.length).toBeLessThan(6);
    });
  });
});
