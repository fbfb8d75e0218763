import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Libsql from 'libsql';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Database, openDatabase } from './database.ts';
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
let folder: string;
let database: Database;
let store: KeyStore;
let elsewhere: Database;
let elsewhereStore: KeyStore;
const onProblem = vi.fn();

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-ring-'));
  database = await openDatabase(join(folder, 'a.db'));
  store = new KeyStore(database);
  elsewhere = await openDatabase(join(folder, 'a.db'));
  elsewhereStore = new KeyStore(elsewhere);
  onProblem.mockReset();
});

afterEach(() => {
  database.close();
  elsewhere.close();
  rmSync(folder, { recursive: true });
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
    expect(await ring.standing(NOW_MS)).toBe('none');
    const { key, record } = await create(elsewhereStore, 'new');
    expect(await ring.findByKey(key, NOW_MS)).toEqual(record);
  });

  it('refuses a key that another connection has revoked a second ago', async () => {
    const { key } = await create(store, 'a');
    const ring = await openRing();
    expect(await ring.findByKey(key, NOW_MS)).toBeDefined();
    await elsewhereStore.revoke('a', NOW_MS);
    expect(await ring.findByKey(key, NOW_MS + 1000)).toBeUndefined();
    expect(await ring.standing(NOW_MS + 1000)).toBe('revoked');
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
    const look = vi.spyOn(database, 'dataVersion');
    for (let elapsedMs = 0; elapsedMs < 3000; elapsedMs += 10) await ring.findByKey(key, NOW_MS + elapsedMs);
    expect(look).toHaveBeenCalledTimes(3);
  });

  it('reads all again when told to', async () => {
    const ring = await openRing();
    await ring.standing(NOW_MS);
    await create(elsewhereStore, 'new');
    expect(await ring.standing(NOW_MS)).toBe('none');
    await ring.reload();
    expect(await ring.standing(NOW_MS)).toBe('live');
  });

  it('does not take a ring whose keys were all revoked for one that never had any', async () => {
    await create(store, 'a');
    await store.revoke('a', NOW_MS);
    const ring = await openRing();
    expect(await ring.standing(NOW_MS)).toBe('revoked');
    await create(elsewhereStore, 'b');
    expect(await ring.standing(NOW_MS + 1000)).toBe('live');
  });

  it('goes on with the keys it has while another connection holds the file', async () => {
    const { key, record } = await create(store, 'a');
    const ring = await openRing();
    const holder = new Libsql(join(folder, 'a.db'));
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
  });

  it('goes on with the keys it has where the database cannot be read, and says so', async () => {
    const { key, record } = await create(store, 'a');
    const ring = await openRing();
    vi.spyOn(database, 'dataVersion').mockImplementation(() => {
      throw new Error('gone');
    });
    expect(await ring.findByKey(key, NOW_MS)).toEqual(record);
    expect(onProblem).toHaveBeenCalledWith(new Error('gone'));
    await expect(ring.reload()).rejects.toThrow('gone');
  });
});
