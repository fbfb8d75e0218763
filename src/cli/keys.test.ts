import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BlockStore } from '../block-store/block-store.ts';
import type { Database } from '../store/database.ts';
import { ANONYMOUS_KEY_ID } from '../store/key-record.ts';
import { KeyRing } from '../store/key-ring.ts';
import { KeyStore } from '../store/key-store.ts';
import { openDatabase } from '../store/open-database.ts';
import { DAY_MS, utcDay } from '../store/usage-report.ts';
import { UsageStore } from '../store/usage-store.ts';
import { addKeys } from './keys.ts';
import { addUsage } from './usage.ts';

const used = { promptTokens: 1200, cachedTokens: 200, completionTokens: 34, failed: false };
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-cli-'));
  path = join(folder, 'a.db');
});

afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

function fail(error: unknown): never {
  throw error;
}

const run = (...words: string[]) => runAs([...words, '--database', path]);

async function runAs(words: readonly string[]): Promise<{ output: string; notes: string }> {
  let output = '';
  let notes = '';
  const take = (add: (text: string) => void) => (text: unknown) => {
    add(String(text));
    return true;
  };
  const stdout = vi.spyOn(process.stdout, 'write').mockImplementation(take((text) => (output += text)));
  const stderr = vi.spyOn(process.stderr, 'write').mockImplementation(take((text) => (notes += text)));
  try {
    const program = new Command().exitOverride();
    addKeys(program);
    addUsage(program);
    for (const command of [...program.commands, ...program.commands.flatMap(({ commands }) => commands)]) {
      command.exitOverride();
    }
    await program.parseAsync(words, { from: 'user' });
  } finally {
    stdout.mockRestore();
    stderr.mockRestore();
  }
  return { output, notes };
}

async function withDatabase<T>(action: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase(path);
  try {
    return await action(database);
  } finally {
    database.close();
  }
}

describe('chairlift keys', () => {
  it('creates a key that opens the door, alone on standard output', async () => {
    const { output, notes } = await run(
      ...['keys', 'create', '--name', 'Ada', '--tier', 'high', '--rpm', '60', '--tpm', '9000'],
      ...['--max-concurrent', '4', '--daily-tokens', '100000', '--kv-share', '0.25'],
    );
    expect(output).toMatch(/^cl-\w{43}\n$/);
    expect(notes).toContain('shown this once');
    const record = await withDatabase(async (database) => {
      const ring = await KeyRing.open(database, new KeyStore(database), fail);
      return ring.findByKey(output.trim(), Date.now());
    });
    expect(record).toMatchObject({
      name: 'Ada',
      tier: 'high',
      admin: false,
      limits: {
        requestsPerMinute: 60,
        tokensPerMinute: 9000,
        maxConcurrent: 4,
        dailyTokens: 100_000,
        kvShare: 0.25,
      },
    });
  });

  it('speaks JSON', async () => {
    const created = JSON.parse((await run('keys', 'create', '--name', 'a', '--admin', '--json')).output);
    expect(created).toMatchObject({ name: 'a', tier: 'normal', admin: true, limits: {} });
    const { key, ...record } = created;
    expect(key).toMatch(/^cl-/);
    expect(JSON.parse((await run('keys', 'list', '--json')).output)).toEqual([record]);
    const revoked = JSON.parse((await run('keys', 'revoke', record.id, '--json')).output);
    expect(revoked).toEqual({ ...record, revokedMs: expect.any(Number) });
    expect(JSON.parse((await run('keys', 'list', '--json')).output)).toEqual([]);
    expect(JSON.parse((await run('keys', 'list', '--all', '--json')).output)).toEqual([revoked]);
  });

  it('deletes the KV blocks of a key that it revokes, and no others', async () => {
    const cache = join(folder, 'cache');
    const ids: string[] = [];
    for (const name of ['ann', 'bob']) {
      const { output } = await run('keys', 'create', '--name', name, '--json');
      ids.push((JSON.parse(output) as { id: string }).id);
    }
    const store = await BlockStore.open({
      folder: cache,
      model: { name: 'small', identity: 'small' },
      sizeBytes: 1 << 24,
      warn: fail,
    });
    const keys = ids.map((id) => createHash('sha256').update(id).digest());
    for (const [at, key] of keys.entries()) store.write(key, ids[at] as string, new Uint8Array(100).fill(at));
    await store.flush();
    vi.stubEnv('CHAIRLIFT_CACHE_DISK', cache);
    const { output, notes } = await run('keys', 'revoke', 'ann');
    expect(output).toMatch(/^Revoked 'ann'/);
    expect(notes).toBe(`Deleted 1 of its KV blocks in ${cache}.\n`);
    expect(await store.read(keys)).toEqual([undefined, new Uint8Array(100).fill(1)]);
    vi.unstubAllEnvs();
    expect((await run('keys', 'revoke', 'bob', '--cache-disk', cache)).notes).toContain('Deleted 1');
    expect(await store.read(keys)).toEqual([undefined, undefined]);
    await store.close();
  });

  it('lists keys in columns, without their secrets', async () => {
    const { output: key } = await run('keys', 'create', '--name', 'Ada', '--rpm', '1500');
    await run('keys', 'create', '--name', 'Bo', '--tier', 'low');
    const { output } = await run('keys', 'list');
    const [headings = '', ada = '', bo = ''] = output.split('\n');
    expect(headings).toMatch(/^name +id +key +tier/);
    expect(ada).toMatch(/^Ada +key_\w{12} +cl-\w{8}… +normal +no +1,500 +- /);
    expect(bo).toMatch(/^Bo .* low /);
    expect(ada.indexOf('1,500') + 5).toBe(headings.indexOf('rpm') + 3);
    expect(output).not.toContain(key.trim());
  });

  it('says where it looked when there is none', async () => {
    expect((await run('keys', 'list')).output).toBe(`No keys in ${path}.\n`);
    await run('keys', 'create', '--name', 'a');
    await run('keys', 'revoke', 'a');
    const { output } = await run('keys', 'list');
    expect(output).toBe(`No live keys in ${path}. 1 revoked: --all shows them.\n`);
  });

  it('opens the database of the server where none is named', async () => {
    vi.stubEnv('CHAIRLIFT_DATABASE', path);
    expect((await runAs(['keys', 'list'])).output).toBe(`No keys in ${path}.\n`);
    expect((await runAs(['usage'])).output).toBe(`No usage in ${path}.\n`);
    vi.unstubAllEnvs();
  });

  it('refuses what it cannot do in one line', async () => {
    await run('keys', 'create', '--name', 'a');
    await expect(run('keys', 'create', '--name', 'a')).rejects.toMatchObject({
      name: 'UsageError',
      message: expect.stringContaining("'a' exists"),
    });
    await expect(run('keys', 'revoke', 'b')).rejects.toThrow("name or id 'b'");
    await expect(run('keys', 'create', '--name', 'c', '--tier', 'vip')).rejects.toThrow('high, normal, low');
    await expect(run('keys', 'create', '--name', 'c', '--rpm', '0')).rejects.toThrow('whole number from 1');
  });
});

describe('chairlift usage', () => {
  const nowMs = Date.UTC(2026, 1, 1, 12);

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: nowMs });
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  async function useKeys(): Promise<void> {
    await run('keys', 'create', '--name', 'Ada');
    await run('keys', 'create', '--name', 'Bo');
    await withDatabase(async (database) => {
      const [ada, bo] = (await new KeyStore(database).list()).sort((a, b) => a.name.localeCompare(b.name));
      const usage = new UsageStore(database, fail);
      usage.record(ada?.id ?? '', used, nowMs - 40 * DAY_MS);
      usage.record(ada?.id ?? '', used, nowMs - DAY_MS);
      usage.record(ada?.id ?? '', { ...used, failed: true }, nowMs);
      usage.record(bo?.id ?? '', used, nowMs);
      usage.record(ANONYMOUS_KEY_ID, used, nowMs);
      await usage.close();
    });
  }

  const rowsOf = async (...words: string[]): Promise<{ day: string; keyName: string }[]> =>
    JSON.parse((await run('usage', '--json', ...words)).output);

  it('tells each key’s days, and their sum', async () => {
    await useKeys();
    const lines = (await run('usage')).output.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^day +key +requests +prompt +cached +completion +errors$/);
    expect(lines[1]).toMatch(new RegExp(`^${utcDay(nowMs - DAY_MS)} +Ada +1 +1,200 +200 +34 +0$`));
    expect(
      lines
        .slice(2, -1)
        .map((line) => line.split(/ +/)[1])
        .sort(),
    ).toEqual(['Ada', 'Bo', 'anonymous']);
    expect(lines.at(-1)).toMatch(/^total +4 +4,800 +800 +136 +1$/);
  });

  it('keeps to one key, revoked or not, and to the days asked for', async () => {
    await useKeys();
    await run('keys', 'revoke', 'Ada');
    expect(await rowsOf('--key', 'Ada')).toHaveLength(2);
    expect(await rowsOf('--key', 'Ada', '--days', '1')).toMatchObject([
      { day: utcDay(nowMs), keyName: 'Ada' },
    ]);
    expect(await rowsOf('--key', 'Ada', '--days', '41')).toHaveLength(3);
    expect(await rowsOf('--days', '9999999999')).toHaveLength(5);
    expect(await rowsOf('--key', ANONYMOUS_KEY_ID)).toHaveLength(1);
    await expect(run('usage', '--key', 'nobody')).rejects.toThrow("name or id 'nobody'");
  });

  it('says where it looked when there is none', async () => {
    expect((await run('usage')).output).toBe(`No usage in ${path}.\n`);
  });
});
