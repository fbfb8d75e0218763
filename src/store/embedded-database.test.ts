import { spawn } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Libsql from 'libsql';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { defaultDatabasePath, IN_MEMORY } from './database.ts';
import { KeyStore } from './key-store.ts';
import { MIGRATIONS } from './migrations.ts';
import { openDatabase } from './open-database.ts';
import { reportUsage } from './usage-report.ts';

const NOW_MS = Date.UTC(2026, 0, 31);
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-store-'));
  path = join(folder, 'deep', 'er', 'chairlift.db');
});

afterEach(() => rmSync(folder, { recursive: true }));

async function createKeys(names: readonly string[]): Promise<void> {
  const database = await openDatabase(path);
  for (const name of names) {
    await new KeyStore(database).createKey({ name, tier: 'normal', limits: {} }, NOW_MS);
  }
  await database.close();
}

async function keyNames(): Promise<string[]> {
  const database = await openDatabase(path);
  const records = await new KeyStore(database).list();
  await database.close();
  return records.map(({ name }) => name).sort();
}

describe('openDatabase', () => {
  it('makes the folder and the file for their owner alone', async () => {
    const database = await openDatabase(path);
    await new KeyStore(database).createKey({ name: 'a', tier: 'low', limits: {} }, NOW_MS);
    expect(statSync(join(folder, 'deep')).mode & 0o777).toBe(0o700);
    const files = readdirSync(join(folder, 'deep', 'er'));
    expect(files).toContain('chairlift.db-wal');
    for (const file of files) expect(statSync(join(folder, 'deep', 'er', file)).mode & 0o777).toBe(0o600);
    await database.close();
  });

  it('keeps what was written when opened again', async () => {
    await createKeys(['one', 'two']);
    await createKeys(['three']);
    expect(await keyNames()).toEqual(['one', 'three', 'two']);
  });

  it('leaves the file alone behind once it is closed, in this process or by the last of several', async () => {
    await createKeys(['one']);
    expect(readdirSync(join(folder, 'deep', 'er'))).toEqual(['chairlift.db']);
    const [first, second] = [await openDatabase(path), await openDatabase(path)];
    await new KeyStore(first).list();
    await new KeyStore(second).createKey({ name: 'two', tier: 'low', limits: {} }, NOW_MS);
    await first.close();
    expect(await new KeyStore(second).list()).toHaveLength(2);
    await second.close();
    expect(await keyNames()).toEqual(['one', 'two']);
  });

  it('keeps what was committed when the process dies without closing', async () => {
    const database = await openDatabase(path);
    await new KeyStore(database).createKey({ name: 'left', tier: 'low', limits: {} }, NOW_MS);
    expect(await keyNames()).toEqual(['left']);
    await database.close();
  });

  it('brings an empty file to the current version', async () => {
    path = join(folder, 'empty.db');
    writeFileSync(path, '');
    await createKeys(['a']);
    const raw = new Libsql(path);
    expect(raw.prepare('pragma user_version').all()).toEqual([{ user_version: MIGRATIONS.length }]);
    raw.close();
  });

  it('opens a database in memory that leaves no file', async () => {
    const database = await openDatabase(IN_MEMORY);
    expect(await reportUsage(database, {})).toEqual([]);
    await database.close();
    expect(readdirSync('.').filter((name) => name.includes('memory'))).toEqual([]);
  });

  it('lies in the home folder where nobody says otherwise', () => {
    expect(defaultDatabasePath()).toMatch(/[/\\]\.chairlift[/\\]chairlift\.db$/);
  });

  it('tells by the version of the keys that another connection has written, and only then', async () => {
    const [mine, other] = [await openDatabase(path), await openDatabase(path)];
    const before = await mine.keysVersion();
    await new KeyStore(mine).createKey({ name: 'mine', tier: 'low', limits: {} }, NOW_MS);
    expect(await mine.keysVersion()).toBe(before);
    await new KeyStore(other).createKey({ name: 'other', tier: 'low', limits: {} }, NOW_MS);
    expect(await mine.keysVersion()).not.toBe(before);
    await mine.close();
    await other.close();
  });
});

describe('a file that cannot be used', () => {
  it('is refused in one line where it is no database', async () => {
    await createKeys([]);
    writeFileSync(path, 'Dear diary, today I was mistaken for a database. '.repeat(100));
    await expect(openDatabase(path)).rejects.toMatchObject({ name: 'StoreError', fault: 'damaged' });
    await expect(openDatabase(path)).rejects.toThrow(/chairlift\.db is damaged .* backup/);
  });

  it.each([
    ['its header', 16, 90],
    ['its first page', 100, 4096],
    ['a page of rows', 4096, 8192],
  ])('is refused where %s is overwritten', async (_, start, end) => {
    await createKeys(Array.from({ length: 200 }, (_, index) => `key ${index}`));
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0xa5, start, end));
    await expect(openDatabase(path)).rejects.toMatchObject({ fault: 'damaged' });
  });

  it('is refused where its end is missing', async () => {
    await createKeys(Array.from({ length: 200 }, (_, index) => `key ${index}`));
    truncateSync(path, 8192);
    await expect(openDatabase(path)).rejects.toMatchObject({ fault: 'damaged' });
  });

  it('is explained also where damage comes while it is open', async () => {
    await createKeys(Array.from({ length: 200 }, (_, index) => `key ${index}`));
    const [database, other] = [await openDatabase(path), await openDatabase(path)];
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0xa5, 4096));
    // A write elsewhere makes the first connection read its pages again.
    await other.change((tables) =>
      tables.insertInto('usage_flush').values({ id: 'a', at_ms: NOW_MS }).execute(),
    );
    await expect(new KeyStore(database).list()).rejects.toMatchObject({ fault: 'damaged' });
    await database.close();
    await other.close();
  });

  it('is refused where it belongs to another program, and left as it was', async () => {
    await createKeys([]);
    rmSync(path);
    const raw = new Libsql(path);
    raw.exec('create table recipes (name text)');
    raw.close();
    await expect(openDatabase(path)).rejects.toMatchObject({ fault: 'foreign' });
    const again = new Libsql(path);
    expect(again.prepare('select name from sqlite_schema').all()).toEqual([{ name: 'recipes' }]);
    again.close();
  });

  it('is refused where a newer version has written it', async () => {
    await createKeys([]);
    const raw = new Libsql(path);
    raw.exec(`pragma user_version = ${MIGRATIONS.length + 1}`);
    raw.close();
    await expect(openDatabase(path)).rejects.toMatchObject({ fault: 'newer' });
  });

  it('is refused where the path is a folder or lies under a file', async () => {
    await expect(openDatabase(folder)).rejects.toThrow(/cannot be read and written as a file/);
    writeFileSync(join(folder, 'file'), '');
    await expect(openDatabase(join(folder, 'file', 'a.db'))).rejects.toMatchObject({ fault: 'unreachable' });
  });

  it.skipIf(process.platform !== 'linux')(
    'is said not to open where the system has no room for files',
    async () => {
      for (const nowhere of ['/proc/a.db', '/proc/folder/a.db', join(folder, 'a'.repeat(300))]) {
        await expect(openDatabase(nowhere)).rejects.toMatchObject({ fault: 'unreachable' });
      }
    },
  );

  it('is said to be busy where another process keeps it locked', async () => {
    await createKeys([]);
    const raw = new Libsql(path);
    raw.exec('begin immediate');
    await expect(openDatabase(path)).rejects.toMatchObject({ fault: 'busy' });
    raw.exec('rollback');
    raw.close();
  });

  it('takes every change after one that found it locked, for all to see', async () => {
    const database = await openDatabase(path);
    const store = new KeyStore(database);
    const other = new Libsql(path);
    other.exec('begin exclusive');
    const late = store.createKey({ name: 'late', tier: 'normal', limits: {} }, NOW_MS);
    await expect(late).rejects.toMatchObject({ fault: 'busy' });
    other.exec('rollback');
    const made = await store.createKey({ name: 'next', tier: 'normal', limits: {} }, NOW_MS);
    if (!made.ok) throw new Error(made.message);
    const seen = () => other.prepare('select name, revoked_ms from api_key').all();
    expect(seen()).toEqual([{ name: 'next', revoked_ms: null }]);
    await store.revoke('next', NOW_MS);
    expect(seen()).toEqual([{ name: 'next', revoked_ms: NOW_MS }]);
    await other.close();
    await database.close();
  });
});

describe('several processes', () => {
  /** Runs the module's code in a process of its own; node alone cannot load TypeScript. */
  function inProcess(script: string): Promise<string> {
    const store = (name: string) => JSON.stringify(fileURLToPath(new URL(`${name}.ts`, import.meta.url)));
    const code = `
      import { createServer } from 'vite';
      const loader = await createServer({
        appType: 'custom',
        logLevel: 'error',
        server: { middlewareMode: true, ws: false, watch: null },
        optimizeDeps: { noDiscovery: true },
      });
      const { openDatabase } = await loader.ssrLoadModule(${store('open-database')});
      const { KeyStore } = await loader.ssrLoadModule(${store('key-store')});
      const path = ${JSON.stringify(path)};
      ${script}
      await loader.close();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      cwd: fileURLToPath(new URL('../../', import.meta.url)),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    let errors = '';
    child.stdout.on('data', (text) => (output += text));
    child.stderr.on('data', (text) => (errors += text));
    return new Promise((resolve, reject) => {
      child.on('close', (code) => (code === 0 ? resolve(output) : reject(new Error(errors))));
    });
  }

  const createTen = (owner: string) => `
    for (let index = 0; index < 10; index++) {
      const database = await openDatabase(path);
      const result = await new KeyStore(database)
        .createKey({ name: '${owner} ' + index, tier: 'normal', limits: {} }, Date.now());
      if (!result.ok) throw new Error(result.message);
      await database.close();
    }`;

  it('may make, migrate and fill one file at the same time', async () => {
    await Promise.all(['a', 'b', 'c'].map((owner) => inProcess(createTen(owner))));
    expect(await keyNames()).toHaveLength(30);
  });

  const printNames = `
    const database = await openDatabase(path);
    console.log(JSON.stringify((await new KeyStore(database).list()).map(({ name }) => name)));
    await database.close();`;

  it('see each other’s keys without being restarted', async () => {
    const database = await openDatabase(path);
    const store = new KeyStore(database);
    const before = await database.keysVersion();
    await inProcess(createTen('elsewhere'));
    expect(await database.keysVersion()).not.toBe(before);
    expect(await store.list()).toHaveLength(10);
    await store.createKey({ name: 'here', tier: 'normal', limits: {} }, NOW_MS);
    expect(JSON.parse(await inProcess(printNames))).toContain('here');
    await database.close();
  });

  it('leave the log to a process that has opened the file twice', async () => {
    // Locks belong to a process: opening the file again must not drop those of the first connection.
    const [database, second] = [await openDatabase(path), await openDatabase(path)];
    const log = statSync(`${path}-wal`).ino;
    await inProcess(createTen('elsewhere'));
    expect(statSync(`${path}-wal`).ino).toBe(log);
    await database.close();
    await second.close();
  });
});
