import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import Libsql from 'libsql';
import { beforeEach, describe, expect, it } from 'vitest';
import { describeStores } from '../../test/support/store-homes.ts';
import { type KeyLimits, TIERS } from './key-record.ts';
import { KeyStore, type NewKey } from './key-store.ts';
import { openDatabase } from './open-database.ts';

const NOW_MS = Date.UTC(2026, 0, 31);

describeStores('keys', (home) => {
  let store: KeyStore;

  beforeEach(async () => {
    store = new KeyStore(await home.open());
  });

  async function create(wanted: Partial<NewKey> & { name: string }) {
    const result = await store.createKey({ tier: 'normal', limits: {}, ...wanted }, NOW_MS);
    if (!result.ok) throw new Error(result.message);
    return result;
  }

  describe('createKey', () => {
    it('gives a key of 256 random bits whose prefix the record shows', async () => {
      const { key, record } = await create({ name: 'a' });
      expect(key).toMatch(/^cl-[0-9A-Za-z]{43}$/);
      expect(record.prefix).toBe(key.slice(0, 11));
      expect((await create({ name: 'b' })).key).not.toBe(key);
    });

    it('stores what was wished', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...TIERS),
          fc.boolean(),
          fc.record(
            {
              requestsPerMinute: fc.integer({ min: 1, max: 1e9 }),
              tokensPerMinute: fc.integer({ min: 1, max: 1e9 }),
              maxConcurrent: fc.integer({ min: 1, max: 1e9 }),
              dailyTokens: fc.maxSafeNat().filter((value) => value > 0),
              kvShare: fc.double({ min: 0, max: 1, minExcluded: true, noNaN: true }),
            },
            { requiredKeys: [] },
          ),
          async (tier, admin, limits) => {
            const { record } = await create({ name: 'wanted', tier, admin, limits });
            expect(record).toMatchObject({ name: 'wanted', tier, admin, limits, createdMs: NOW_MS });
            expect(await store.list()).toContainEqual(record);
            await store.revoke('wanted', NOW_MS);
          },
        ),
        { numRuns: 30 },
      );
    });

    it('refuses a name that a live key has', async () => {
      await create({ name: 'a' });
      const again = await store.createKey({ name: 'a', tier: 'high', limits: {} }, NOW_MS);
      expect(again).toMatchObject({ ok: false, problem: 'name-taken' });
      expect(await store.list()).toHaveLength(1);
    });

    it.each(['', ' a', 'a ', 'a\nb', 'a\u0000', 'x'.repeat(65), 'key_abc', 'anonymous'])(
      'refuses the name %j',
      async (name) => {
        const result = await store.createKey({ name, tier: 'high', limits: {} }, NOW_MS);
        expect(result).toMatchObject({ ok: false, problem: 'invalid' });
      },
    );

    it.each<KeyLimits>([
      { requestsPerMinute: 0 },
      { tokensPerMinute: 1.5 },
      { maxConcurrent: -1 },
      { dailyTokens: Number.NaN },
      { kvShare: 0 },
      { kvShare: 1.01 },
      { kvShare: Number.NaN },
      { requestsPerMinute: 1_000_000_001 },
    ])('refuses the limits %j', async (limits) => {
      const result = await store.createKey({ name: 'a', tier: 'high', limits }, NOW_MS);
      expect(result).toMatchObject({ ok: false, problem: 'invalid' });
      expect(result.ok ? '' : result.message).toContain(Object.keys(limits)[0]);
    });
  });

  describe('revoke', () => {
    it('ends a key by name or by id, once, and keeps its record', async () => {
      const { record: a } = await create({ name: 'a' });
      const { record: b } = await create({ name: 'b' });
      expect(await store.revoke('a', NOW_MS + 1)).toEqual({ ...a, revokedMs: NOW_MS + 1 });
      expect(await store.revoke(b.id, NOW_MS + 2)).toEqual({ ...b, revokedMs: NOW_MS + 2 });
      expect(await store.revoke('a', NOW_MS + 3)).toBeUndefined();
      expect((await store.liveKeys()).live).toEqual([]);
      expect((await store.list()).map(({ revokedMs }) => revokedMs).sort()).toEqual([NOW_MS + 1, NOW_MS + 2]);
    });

    it('frees the name for a new key, whose record is another', async () => {
      const { record: first } = await create({ name: 'a' });
      await store.revoke('a', NOW_MS);
      const { record: second } = await create({ name: 'a' });
      expect(second.id).not.toBe(first.id);
      expect((await store.liveKeys()).live.map(({ record }) => record.id)).toEqual([second.id]);
    });

    it('knows no key by its prefix or by nothing', async () => {
      const { record } = await create({ name: 'a' });
      expect(await store.revoke(record.prefix, NOW_MS)).toBeUndefined();
      expect(await store.revoke('', NOW_MS)).toBeUndefined();
      expect((await store.liveKeys()).live).toHaveLength(1);
    });
  });
});

describe('a file of keys', () => {
  it('leaves the hash of the key in the file, and no more of it than its prefix', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-keys-'));
    const path = join(folder, 'keys.db');
    const file = await openDatabase(path);
    const result = await new KeyStore(file).createKey({ name: 'a', tier: 'low', limits: {} }, NOW_MS);
    await file.close();
    const bytes = readFileSync(path, 'latin1');
    rmSync(folder, { recursive: true });
    if (!result.ok) throw new Error(result.message);
    expect(bytes).toContain(createHash('sha256').update(result.key).digest('hex'));
    expect(bytes).toContain(result.record.prefix);
    expect(bytes).not.toContain(result.key.slice(0, result.record.prefix.length + 1));
    expect(bytes).not.toContain(result.key.slice(result.record.prefix.length));
  });
});

describe('while another connection holds the database', () => {
  it('a change waits for a moment, and the thread goes on meanwhile', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-keys-'));
    const file = await openDatabase(join(folder, 'a.db'));
    const holder = new Libsql(join(folder, 'a.db'));
    try {
      holder.exec('begin exclusive');
      let ticks = 0;
      const timer = setInterval(() => ticks++, 10);
      setTimeout(() => holder.exec('rollback'), 300);
      const keys = new KeyStore(file);
      const [made] = await Promise.all([
        keys.createKey({ name: 'a', tier: 'low', limits: {} }, NOW_MS),
        keys.createKey({ name: 'b', tier: 'low', limits: {} }, NOW_MS),
      ]);
      clearInterval(timer);
      expect(made.ok).toBe(true);
      expect(ticks).toBeGreaterThan(3);
      expect(await keys.list()).toHaveLength(2);
    } finally {
      holder.close();
      await file.close();
      rmSync(folder, { recursive: true });
    }
  });
});
