import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommand } from '../../test/support/run-command.ts';
import { BlockStore } from '../block-store/block-store.ts';
import { addCache } from './cache.ts';

let folder = '';
const stores: BlockStore[] = [];

const keyOf = (name: string) => createHash('sha256').update(name).digest();

/** A store that goes on while commands run. */
async function fill(model: string, names: readonly string[], tenant: string): Promise<BlockStore> {
  const identity = `${model}, f16`;
  const options = { folder, model: { name: model, identity }, sizeBytes: 2 ** 24, followMs: 20 };
  const store = await BlockStore.open({ ...options, warn: () => {} });
  stores.push(store);
  for (const name of names) store.write(keyOf(name), tenant, new Uint8Array(1000).fill(1));
  await store.flush();
  return store;
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-cache-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(stores.splice(0).map((store) => store.close()));
  rmSync(folder, { recursive: true });
});

const run = (...words: string[]) => runCommand(addCache, ['cache', ...words, '--cache-disk', folder]);

describe('chairlift cache', () => {
  it('shows how much is kept of each model, while it is used', async () => {
    await fill('small:q8_0', ['a', 'b', 'c'], 'alice');
    await fill('other', ['a'], 'bob');
    const { output } = await run('ls');
    expect(output).toMatch(/^small-q8_0-[0-9a-f]{16} +3 +3\.\d+ KB +1 +\d{4}-/m);
    expect(output).toMatch(/^other-[0-9a-f]{16} +1 /m);
    const models = JSON.parse((await run('ls', '--json')).output) as { blocks: number }[];
    expect(models.map(({ blocks }) => blocks).sort()).toEqual([1, 3]);
  });

  it('takes folder and key from the settings of servers where none are given', async () => {
    await fill('small', ['a'], '');
    vi.stubEnv('CHAIRLIFT_CACHE_DISK', folder);
    expect((await runCommand(addCache, ['cache', 'ls'])).output).toContain('small-');
    vi.stubEnv('CHAIRLIFT_CACHE_DISK_KEY', join(folder, 'elsewhere'));
    const { error } = await runCommand(addCache, ['cache', 'verify']);
    expect(error).toMatchObject({ message: expect.stringContaining('elsewhere cannot be read') });
    expect((await run('verify')).output).toMatch(/small-\S+ +1 +0/);
    vi.unstubAllEnvs();
    const unset = await runCommand(addCache, ['cache', 'ls']);
    expect(unset.error).toMatchObject({ message: expect.stringContaining('give --cache-disk') });
  });

  it('says that there is nothing where there is nothing', async () => {
    expect((await run('ls')).output).toContain('no blocks');
    expect((await run('verify')).output).toContain('no blocks');
    expect((await run('rm', '--all')).output).toContain('removed 0 B');
  });

  it('removes the blocks of one key, of one model, or all, and servers notice', async () => {
    const store = await fill('small', ['a', 'b'], 'alice');
    await fill('small', ['c', 'd', 'e'], 'bob');
    await fill('other', ['f'], 'bob');
    expect((await run('rm', '--key', 'alice')).output).toBe('removed 2 blocks of alice\n');
    expect(await store.read([keyOf('a')])).toEqual([undefined]);
    expect(store.stats().damaged).toBe(0);
    await run('rm', 'small');
    expect((await run('ls')).output).not.toContain('small-');
    expect((await run('ls')).output).toContain('other-');
    await expect.poll(() => store.stats().blocks).toBe(0);
    // What is computed now is kept again.
    store.write(keyOf('a'), 'alice', new Uint8Array(1000).fill(1));
    await store.flush();
    expect((await store.read([keyOf('a')]))[0]?.length).toBe(1000);
    await run('rm', '--all');
    expect(readdirSync(folder)).toEqual(['store.id', 'store.key']);
  });

  it('removes what was begun long ago alone where it is asked for that', async () => {
    await fill('small', ['a'], '');
    await run('rm', '--older-than', '1');
    expect((await run('ls')).output).toContain('small-');
    await run('rm', '--older-than', '0');
    expect((await run('ls')).output).not.toContain('small-');
  });

  it('reads every block, and ends with 1 where one is damaged', async () => {
    await fill('small', ['a', 'b', 'c'], '');
    const whole = await run('verify');
    expect(whole.output).toMatch(/small-\S+ +3 +0/);
    expect(whole.exitCode).toBeUndefined();
    const path = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find((name) =>
      name.endsWith('.blocks'),
    );
    const bytes = readFileSync(join(folder, path as string));
    bytes[1500] = (bytes[1500] as number) ^ 1;
    writeFileSync(join(folder, path as string), bytes);
    const damaged = await run('verify');
    expect(damaged.output).toMatch(/small-\S+ +2 +1/);
    expect(damaged.exitCode).toBe(1);
  });

  it('refuses what it does not understand, and says what to give', async () => {
    await fill('small', ['a'], '');
    expect((await run('rm')).error).toMatchObject({ message: expect.stringContaining('say what to remove') });
    expect((await run('rm', 'unknown')).error).toMatchObject({
      message: expect.stringContaining("'unknown'"),
    });
    expect((await run('rm', 'small', '--key', 'a')).error).toMatchObject({
      message: expect.stringContaining('nothing else'),
    });
    expect((await run('ls')).output).toContain('small-');
    writeFileSync(join(folder, 'store.key'), 'damaged');
    expect((await run('verify')).error).toMatchObject({ message: expect.stringContaining('store.key') });
    expect((await run('rm', '--key', 'a')).error).toMatchObject({
      message: expect.stringContaining('store.key'),
    });
    expect((await run('ls')).output).toMatch(/small-\S+ +0 .* 1$/m);
  });
});
