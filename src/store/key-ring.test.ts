import Libsql from 'libsql';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { describeStores } from '../../test/support/store-homes.ts';
import type { Database } from './database.ts';
import type { KeyRecord } from './key-record.ts';
import { KeyRing } from './key-ring.ts';
import { KeyStore } from './key-store.ts';

const compared = vi.hoisted(() => vi.fn());

vi.mock('node:crypto', async (original) => {
  const crypto = await original<typeof import('node:crypto')>();
  const timingSafeEqual: typeof crypto.timingSafeEqual = (left, right) => {
    compared();
    return crypto.timingSafeEqual(left, right);
  };
  return { ...crypto, timingSafeEqual };
});

const NOW_MS = Date.UTC(2026, 0, 31);
describeStores('a key ring', (home) => {
  let database: Database;
  let store: KeyStore;
  let elsewhereStore: KeyStore;
  const onProblem = vi.fn();

  beforeEach(async () => {
    database = await home.open();
    store = new KeyStore(database);
    elsewhereStore = new KeyStore(await home.open());
    onProblem.mockReset();
  });

  async function create(into: KeyStore, name: string): Promise<{ key: string; record: KeyRecord }> {
    const result = await into.createKey({ name, tier: 'high', limits: { requestsPerMinute: 5 } }, NOW_MS);
    if (!result.ok) throw new Error(result.message);
    return result;
  }

  const openRing = () => KeyRing.open(database, store, onProblem);

  describe('findByKey', () => {
    it('gives each key its own record', async () => {
      const made = await Promise.all(['a', 'b', 'c'].map((name) => create(store, name)));
      const ring = await openRing();
      for (const { key, record } of made) expect(await ring.findByKey(key, NOW_MS)).toEqual(record);
    });

    it('refuses all that is not exactly the key', async () => {
      const { key, record } = await create(store, 'a');
      const ring = await openRing();
      const last = key.endsWith('x') ? 'y' : 'x';
      for (const wrong of [
        '',
        'cl-',
        record.prefix,
        key.slice(0, -1),
        `${key}x`,
        key.slice(0, -1) + last,
        ` ${key}`,
      ]) {
        expect(await ring.findByKey(wrong, NOW_MS)).toBeUndefined();
      }
    });

    it('decides by a comparison in constant time, also where no key has the prefix', async () => {
      const { key } = await create(store, 'a');
      const ring = await openRing();
      for (const tried of [key, `${key}x`, 'cl-nobodyhasthis']) {
        compared.mockClear();
        await ring.findByKey(tried, NOW_MS);
        expect(compared).toHaveBeenCalled();
      }
    });
  });

  describe('following the database', () => {
    it('knows at once a key that another connection has just made', async () => {
      const ring = await openRing();
      expect(await ring.status(NOW_MS)).toBe('none');
      const { key, record } = await create(elsewhereStore, 'new');
      expect(await ring.findByKey(key, NOW_MS)).toEqual(record);
    });

    it('refuses a key that another connection has revoked a second ago', async () => {
      const { key } = await create(store, 'a');
      const ring = await openRing();
      expect(await ring.findByKey(key, NOW_MS)).toBeDefined();
      await elsewhereStore.revoke('a', NOW_MS);
      expect(await ring.findByKey(key, NOW_MS + 1000)).toBeUndefined();
      expect(await ring.status(NOW_MS + 1000)).toBe('revoked');
    });

    it('tells of each key that was revoked, once, whoever did it, also where nobody asks for keys', async () => {
      await create(store, 'stays');
      const { record } = await create(store, 'a');
      const own = await create(store, 'b');
      const ring = await openRing();
      const revoked: string[] = [];
      ring.onRevoked = (keyId) => revoked.push(keyId);
      await elsewhereStore.revoke('a', NOW_MS);
      await ring.follow();
      expect(revoked).toEqual([record.id]);
      await store.revoke('b', NOW_MS);
      await create(elsewhereStore, 'new');
      await ring.status(NOW_MS);
      await ring.follow();
      expect(revoked).toEqual([record.id, own.record.id]);
    });

    it('refuses at once a key that this process has revoked', async () => {
      const { key } = await create(store, 'a');
      const ring = await openRing();
      expect(await ring.findByKey(key, NOW_MS)).toBeDefined();
      await store.revoke('a', NOW_MS);
      expect(await ring.findByKey(key, NOW_MS)).toBeUndefined();
    });

    it('looks at the database at most once a second for keys it knows', async () => {
      const { key } = await create(store, 'a');
      const ring = await openRing();
      const look = vi.spyOn(database, 'keysVersion');
      for (let elapsedMs = 0; elapsedMs < 3000; elapsedMs += 10)
        await ring.findByKey(key, NOW_MS + elapsedMs);
      expect(look).toHaveBeenCalledTimes(3);
    });

    it('is no longer open as soon as another connection has made the first key', async () => {
      const ring = await openRing();
      expect(await ring.status(NOW_MS)).toBe('none');
      await create(elsewhereStore, 'new');
      expect(await ring.status(NOW_MS)).toBe('live');
    });

    it('reads all again when told to', async () => {
      const { key } = await create(store, 'a');
      const ring = await openRing();
      await ring.status(NOW_MS);
      await elsewhereStore.revoke('a', NOW_MS);
      expect(await ring.findByKey(key, NOW_MS)).toBeDefined();
      await ring.reload();
      expect(await ring.findByKey(key, NOW_MS)).toBeUndefined();
    });

    it('does not take a ring whose keys were all revoked for one that never had any', async () => {
      await create(store, 'a');
      await store.revoke('a', NOW_MS);
      const ring = await openRing();
      expect(await ring.status(NOW_MS)).toBe('revoked');
      await create(elsewhereStore, 'b');
      expect(await ring.status(NOW_MS + 1000)).toBe('live');
    });

    it.runIf(home.kind === 'embedded')(
      'goes on with the keys it has while another connection holds the file',
      async () => {
        const { key, record } = await create(store, 'a');
        const ring = await openRing();
        const holder = new Libsql(home.location());
        holder.exec('begin exclusive');
        try {
          for (const elapsedMs of [0, 2000, 4000]) {
            expect(await ring.findByKey(key, NOW_MS + elapsedMs)).toEqual(record);
            expect(await ring.findByKey('cl-unknown', NOW_MS + elapsedMs)).toBeUndefined();
          }
        } finally {
          holder.exec('rollback');
          holder.close();
        }
      },
    );

    it('goes on with the keys it has where the database cannot be read, and says so', async () => {
      const { key, record } = await create(store, 'a');
      const ring = await openRing();
      vi.spyOn(database, 'keysVersion').mockRejectedValue(new Error('gone'));
      for (const elapsedMs of [0, 2000, 4000]) {
        expect(await ring.findByKey(key, NOW_MS + elapsedMs)).toEqual(record);
      }
      expect(onProblem.mock.calls).toEqual([[new Error('gone')]]);
      await expect(ring.reload()).rejects.toThrow('gone');
    });

    it('does not deny a key it cannot ask for', async () => {
      await create(store, 'a');
      const ring = await openRing();
      const { key, record } = await create(elsewhereStore, 'b');
      const look = vi.spyOn(database, 'keysVersion').mockRejectedValue(new Error('gone'));
      expect(await ring.findByKey(key, NOW_MS)).toBe('unsure');
      look.mockRestore();
      expect(await ring.findByKey(key, NOW_MS)).toEqual(record);
      expect(await ring.findByKey(`${key}x`, NOW_MS)).toBeUndefined();
    });
  });
});
