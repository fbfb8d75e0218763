import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { BlockStore, type BlockStoreOptions } from './block-store.ts';
import { nodeFiles } from './node-files.ts';
import { allSegments, removeSegment } from './segments.ts';

const roots: string[] = [];
const stores: BlockStore[] = [];
const warnings: string[] = [];
const MIB = 2 ** 20;

afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
  warnings.length = 0;
});

function newFolder(): string {
  const root = mkdtempSync(join(tmpdir(), 'chairlift-blocks-'));
  roots.push(root);
  return join(root, 'cache');
}

async function open(folder: string, options: Partial<BlockStoreOptions> = {}): Promise<BlockStore> {
  const store = await BlockStore.open({
    folder,
    model: { name: 'small:q8_0', identity: 'a content, f16, 1' },
    sizeBytes: 64 * MIB,
    warn: (message) => warnings.push(message),
    ...options,
  });
  stores.push(store);
  return store;
}

/** The labels that a store tells of, from now on. */
function labelsOf(store: BlockStore): Set<string> {
  const labels = new Set<string>();
  store.followLabels({
    entered: ({ high, low }) => labels.add(`${high} ${low}`),
    left: ({ high, low }) => labels.delete(`${high} ${low}`),
  });
  return labels;
}

const keyOf = (name: string) => createHash('sha256').update(name).digest();
/** The same for the same name, so that nothing else need be remembered. */
function bytesOf(name: string, length = 20_000): Uint8Array {
  return new Uint8Array(Buffer.alloc(length, createHash('sha512').update(name).digest()));
}
const chain = (name: string, length: number) => Array.from({ length }, (_, at) => `${name} ${at}`);

async function fill(store: BlockStore, names: readonly string[], tenant = ''): Promise<void> {
  for (const name of names) expect(store.write(keyOf(name), tenant, bytesOf(name))).toBe(true);
  await store.flush();
}

async function expectAll(store: BlockStore, names: readonly string[]): Promise<void> {
  const blocks = await store.read(names.map(keyOf));
  expect(blocks.map((block) => block && createHash('sha256').update(block).digest('hex'))).toEqual(
    names.map((name) => createHash('sha256').update(bytesOf(name)).digest('hex')),
  );
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
}

describe('a store of blocks', () => {
  it('gives back what was written, in this process and in the next', async () => {
    const folder = newFolder();
    const names = chain('a', 100);
    const store = await open(folder);
    await fill(store, names);
    expect(store.find(names.map(keyOf))).toEqual({ blocks: 100, bytes: 100 * 20_000 });
    await expectAll(store, names);
    await store.close();
    const again = await open(folder);
    expect(again.find([...names, 'unknown'].map(keyOf)).blocks).toBe(100);
    await expectAll(again, [...names].reverse());
    expect(again.stats()).toMatchObject({ blocks: 100, hits: 100, misses: 0, damaged: 0, dropped: 0 });
  });

  it('finds leading blocks alone, and gives nothing for those it lacks', async () => {
    const store = await open(newFolder());
    await fill(store, ['a 0', 'a 1', 'a 3']);
    expect(store.find(chain('a', 4).map(keyOf)).blocks).toBe(2);
    const blocks = await store.read(chain('a', 4).map(keyOf));
    expect(blocks.map((block) => block !== undefined)).toEqual([true, true, false, true]);
    expect(store.stats()).toMatchObject({ hits: 3, misses: 1 });
  });

  it('takes over whole buffers, copies parts of larger ones, and reads shared ones where they are', async () => {
    const store = await open(newFolder());
    const whole = bytesOf('whole');
    const larger = new Uint8Array(50_000);
    larger.set(bytesOf('part'), 1000);
    const shared = new Uint8Array(new SharedArrayBuffer(20_000));
    shared.set(bytesOf('shared'));
    store.write(keyOf('whole'), '', whole);
    store.write(keyOf('part'), '', larger.subarray(1000, 21_000));
    store.write(keyOf('shared'), '', shared);
    larger.fill(7);
    expect([whole.length, larger.length, shared.length]).toEqual([0, 50_000, 20_000]);
    await store.flush();
    await expectAll(store, ['whole', 'part', 'shared']);
  });

  it('has one identity for all who find its blocks: not in another folder, with another key, or of another model', async () => {
    const [folder, elsewhere] = [newFolder(), newFolder()];
    const keyFile = join(elsewhere, 'other.key');
    const stores = [
      await open(folder),
      await open(folder, { model: { name: 'another-name', identity: 'a content, f16, 1' } }),
      await open(elsewhere),
      await open(folder, { keyFile }),
      await open(folder, { model: { name: 'small:q8_0', identity: 'q8' } }),
    ];
    await fill(stores[0] as BlockStore, ['a']);
    const again = await open(folder);
    const holders = [...stores, again].map(({ holder }) => holder);
    expect(holders).not.toContain(undefined);
    expect(new Set(holders).size).toBe(4);
    expect(holders[1]).toBe(holders[0]);
    expect(holders[5]).toBe(holders[0]);
  });

  it('finds blocks of a model that another process calls otherwise', async () => {
    const folder = newFolder();
    const other = { name: 'tiny', identity: 'a content, f16, 1' };
    // Neither has written anything when the other comes.
    const [first, second] = [await open(folder), await open(folder, { followMs: 20, model: other })];
    await fill(first, ['a']);
    await expect.poll(() => second.find([keyOf('a')]).blocks).toBe(1);
    await expectAll(second, ['a']);
    await expectAll(await open(folder, { model: other }), ['a']);
    expect(second.holder).toBe(first.holder);
  });

  it('makes a damaged identity anew, and says nothing to blocks', async () => {
    const folder = newFolder();
    const first = await open(folder);
    await fill(first, ['a']);
    writeFileSync(join(folder, 'store.id'), 'damaged');
    const second = await open(folder);
    expect(second.holder).not.toBe(first.holder);
    expect(second.holder).toBeDefined();
    await expectAll(second, ['a']);
  });

  it('keeps labels with blocks, in every process, while they are found', async () => {
    const folder = newFolder();
    const [one, other] = [await open(folder, { followMs: 20 }), await open(folder, { followMs: 20 })];
    const [own, others] = [labelsOf(one), labelsOf(other)];
    one.write(keyOf('a'), '', bytesOf('a'), { high: 1, low: -1 });
    one.write(keyOf('b'), '', bytesOf('b'));
    await one.flush();
    expect([...own]).toEqual(['1 -1']);
    await expect.poll(() => [...others]).toEqual(['1 -1']);
    for (const { model, name } of allSegments(nodeFiles, folder))
      removeSegment(nodeFiles, folder, model, name);
    await expect.poll(() => own.size + others.size).toBe(0);
  });

  it('is found by other processes on the folder while both write, each its own model', async () => {
    const folder = newFolder();
    const [one, other] = [await open(folder, { followMs: 20 }), await open(folder, { followMs: 20 })];
    const stranger = await open(folder, { followMs: 20, model: { name: 'small:q8_0', identity: 'q8' } });
    await Promise.all([fill(one, chain('a', 20)), fill(other, chain('b', 20)), fill(stranger, ['c'])]);
    await expect.poll(() => one.find(chain('b', 20).map(keyOf)).blocks).toBe(20);
    await expect.poll(() => other.find(chain('a', 20).map(keyOf)).blocks).toBe(20);
    await Promise.all([expectAll(one, chain('b', 20)), expectAll(other, chain('a', 20))]);
    expect([one, other, stranger].map((store) => store.stats().blocks)).toEqual([40, 40, 1]);
    expect(one.stats().damaged).toBe(0);
  });

  it('takes a flipped bit for a miss, and counts it', async () => {
    const folder = newFolder();
    const store = await open(folder);
    await fill(store, chain('a', 3));
    const path = filesIn(folder).find((name) => name.endsWith('.blocks')) as string;
    const bytes = readFileSync(path);
    bytes[30_000] = (bytes[30_000] as number) ^ 4;
    writeFileSync(path, bytes);
    const blocks = await store.read(chain('a', 3).map(keyOf));
    expect(blocks.map((block) => block !== undefined)).toEqual([true, false, true]);
    expect(store.stats()).toMatchObject({ hits: 2, misses: 1, damaged: 1, blocks: 2 });
    // It is written once more where it is computed once more.
    await fill(store, ['a 1']);
    await expectAll(store, chain('a', 3));
  });

  it('stays within its size, all models together, and keeps what is read', async () => {
    const folder = newFolder();
    const limits = { sizeBytes: 2 * MIB, segmentBytes: MIB / 8, followMs: 20 };
    const store = await open(folder, limits);
    const other = await open(folder, { ...limits, model: { name: 'other', identity: '' } });
    const hot = chain('hot', 3);
    await fill(store, hot);
    for (let round = 0; round < 20; round++) {
      await fill(round % 3 === 0 ? other : store, chain(`round ${round}`, 10));
      expect(allSegments(nodeFiles, folder).reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(
        2 * MIB,
      );
      await expectAll(store, hot);
      await store.flush();
    }
    await expect.poll(() => store.find([keyOf('round 1 0')]).blocks).toBe(0);
    expect(store.find(chain('round 19', 10).map(keyOf)).blocks).toBe(10);
    expect(store.stats().evicted).toBeGreaterThan(50);
    expect(warnings).toEqual([]);
  });

  it('finds no block that is too old, and removes it', async () => {
    const folder = newFolder();
    const store = await open(folder, { ageMs: 1500, followMs: 20 });
    await fill(store, ['a']);
    await expect.poll(() => store.find([keyOf('a')]).blocks).toBe(0);
    expect((await store.read([keyOf('a')]))[0]).toBeUndefined();
    await expect.poll(() => allSegments(nodeFiles, folder)).toEqual([]);
    await expect.poll(() => store.stats().blocks).toBe(0);
  });

  it("removes a tenant's blocks, their bytes as well, and nobody else's", async () => {
    const folder = newFolder();
    const [store, other] = [await open(folder), await open(folder)];
    await fill(store, chain('a', 3), 'alice');
    await fill(store, chain('b', 3), 'bob');
    await fill(other, chain('c', 3), 'alice');
    const before = filesIn(folder).filter((name) => name.endsWith('.blocks'));
    const sealed = readFileSync(before[0] as string).subarray(2000, 2100);
    expect(await store.remove('alice')).toBe(6);
    expect((await store.read(chain('a', 3).map(keyOf))).filter(Boolean)).toEqual([]);
    expect((await other.read(chain('c', 3).map(keyOf))).filter(Boolean)).toEqual([]);
    await expectAll(store, chain('b', 3));
    for (const name of filesIn(folder).filter((path) => path.endsWith('.blocks'))) {
      expect(readFileSync(name).includes(sealed)).toBe(false);
    }
    expect(await store.remove('alice')).toBe(0);
    expect([store, other].map((one) => one.stats().damaged)).toEqual([0, 0]);
    const again = await open(folder);
    expect(again.stats()).toMatchObject({ blocks: 3, damaged: 0 });
    // The tenant may come back.
    await fill(again, ['a 0'], 'alice');
    await expectAll(again, ['a 0']);
  });

  it('is the files of its owner alone, and shows nobody what is in it', async () => {
    const folder = newFolder();
    const store = await open(folder);
    const text = Buffer.from('a text that could be recognised '.repeat(100));
    store.write(keyOf('text'), 'alice', new Uint8Array(text));
    await store.flush();
    expect(filesIn(folder).length).toBeGreaterThan(3);
    for (const path of [folder, ...filesIn(folder)]) {
      const { mode } = statSync(path);
      expect(mode & 0o777, path).toBe(statSync(path).isDirectory() ? 0o700 : 0o600);
      if (statSync(path).isDirectory()) continue;
      for (const secret of [Buffer.from('recognised'), keyOf('text'), Buffer.from('alice')]) {
        expect(readFileSync(path).includes(secret), path).toBe(false);
      }
    }
  });

  it('finds nothing without its key, says so, and goes on with another', async () => {
    const folder = newFolder();
    const store = await open(folder);
    await fill(store, chain('a', 3));
    await store.close();
    writeFileSync(join(folder, 'store.key'), 'damaged');
    const again = await open(folder);
    expect(again.stats().blocks).toBe(0);
    expect(warnings).toEqual([expect.stringContaining('store.key is damaged')]);
    await fill(again, chain('a', 3));
    await expectAll(again, chain('a', 3));
  });

  it('writes its key and its identity again with what it writes after the folder was deleted, or the key damaged', async () => {
    const folder = newFolder();
    const store = await open(folder);
    await fill(store, chain('a', 3));
    rmSync(folder, { recursive: true });
    await fill(store, chain('b', 3));
    const later = await open(folder);
    await expectAll(later, chain('b', 3));
    expect(later.holder).toBe(store.holder);
    writeFileSync(join(folder, 'store.key'), 'damaged');
    rmSync(join(folder, readdirSync(folder).find((name) => !name.startsWith('store.')) as string), {
      recursive: true,
    });
    await fill(store, chain('c', 3));
    await expectAll(await open(folder), chain('c', 3));
    expect(warnings).toEqual([]);
  });

  it('writes no more under a key that was replaced, which nobody could read, and says so', async () => {
    const folder = newFolder();
    const store = await open(folder);
    await fill(store, ['a']);
    rmSync(folder, { recursive: true });
    await fill(await open(folder), ['b']);
    store.write(keyOf('c'), '', new Uint8Array(1000));
    await store.flush();
    expect(store.stats()).toMatchObject({ written: 1, dropped: 1 });
    expect(warnings).toEqual([expect.stringContaining('another key')]);
  });

  it('keeps its key where it is told to', async () => {
    const folder = newFolder();
    const keyFile = join(folder, '..', 'elsewhere', 'key');
    await fill(await open(folder, { keyFile }), ['a']);
    expect(existsSync(join(folder, 'store.key'))).toBe(false);
    await expectAll(await open(folder, { keyFile }), ['a']);
    expect((await open(folder)).stats().blocks).toBe(0);
  });

  it('drops what its queue has no room for, and never more than that', async () => {
    const store = await open(newFolder(), { queueBytes: 100_000 });
    const names = chain('a', 50);
    const taken = names.filter((name) => store.write(keyOf(name), '', bytesOf(name)));
    expect(taken.length).toBeGreaterThanOrEqual(5);
    expect(store.stats().queuedBytes).toBeLessThanOrEqual(100_000);
    expect(store.stats().dropped).toBe(50 - taken.length);
    await store.flush();
    await expectAll(store, taken);
    expect(store.stats()).toMatchObject({ written: taken.length, queuedBytes: 0 });
  });

  it('writes what waits when it is closed, and drops it where there is no time', async () => {
    const folder = newFolder();
    const store = await open(folder);
    for (const name of chain('a', 50)) store.write(keyOf(name), '', bytesOf(name));
    await store.close();
    expect((await open(folder)).stats().blocks).toBe(50);
    const hurried = await open(folder);
    for (const name of chain('b', 500)) hurried.write(keyOf(name), '', bytesOf(name));
    await hurried.close(AbortSignal.abort());
    expect(hurried.stats()).toMatchObject({ queuedBytes: 0 });
    expect(hurried.stats().dropped).toBeGreaterThan(0);
    expect(hurried.write(keyOf('late'), '', bytesOf('late'))).toBe(false);
    expect((await hurried.read([keyOf('a 0')]))[0]).toBeUndefined();
  });

  it('stops writing where the disk fails, says so once, and goes on when it works again', async () => {
    const folder = newFolder();
    const store = await open(folder, { pauseMs: 50, followMs: 20 });
    await fill(store, ['a']);
    const model = join(folder, readdirSync(folder).find((name) => name !== 'store.key') as string);
    rmSync(model, { recursive: true });
    writeFileSync(model, 'in its way');
    let tried = 0;
    const drop = async () => {
      store.write(keyOf(`dropped ${tried}`), '', bytesOf(`dropped ${tried++}`));
      await store.flush();
      return store.stats().dropped;
    };
    await expect.poll(drop).toBeGreaterThan(10);
    expect(warnings).toEqual([expect.stringMatching(/^block store at .*: blocks cannot be written: /)]);
    rmSync(model);
    await expect.poll(async () => (await drop()) < tried).toBe(true);
    await fill(store, chain('b', 5));
    const again = expect.stringContaining('can be written again');
    await expect.poll(async () => (await drop()) && warnings.slice(1)).toEqual([again]);
    await expectAll(store, chain('b', 5));
  });

  it('keeps what it has where a block is larger than all of it', async () => {
    const store = await open(newFolder(), { sizeBytes: MIB });
    await fill(store, ['a']);
    store.write(keyOf('large'), '', new Uint8Array(2 * MIB));
    await store.flush();
    expect(store.stats()).toMatchObject({ blocks: 1, dropped: 1 });
    expect(warnings).toEqual([expect.stringContaining('no more than 1048576 bytes')]);
    await expectAll(store, ['a']);
  });

  it.skipIf(process.platform !== 'linux')('works with what threads that compute leave', async () => {
    const IDLE_POLICY = 5;
    const policies = () =>
      readdirSync('/proc/self/task').map((task) => {
        const fields = readFileSync(`/proc/self/task/${task}/stat`, 'utf8')
          .replace(/^.*\) /, '')
          .split(' ');
        return Number(fields[38]);
      });
    const store = await open(newFolder());
    await fill(store, ['a']);
    await expectAll(store, ['a']);
    // One that writes, one that reads, and this one.
    expect(policies().filter((policy) => policy === IDLE_POLICY).length).toBeGreaterThanOrEqual(2);
    expect(policies()).toContain(0);
  });

  it('lets a reader leave', async () => {
    const store = await open(newFolder());
    await fill(store, chain('a', 20));
    const leaving = new AbortController();
    const read = store.read(chain('a', 20).map(keyOf), leaving.signal);
    leaving.abort(new Error('the client has left'));
    await expect(read).rejects.toThrow('the client has left');
    await expectAll(store, chain('a', 20));
  });

  it('says in one line where it cannot be', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, '..', 'file'), '');
    await expect(open(join(folder, '..', 'file'))).rejects.toThrow(
      /^the block store at .*file cannot be opened: .+/,
    );
    expect(warnings).toEqual([]);
  });

  it('passes over files that are none of its own', async () => {
    const folder = newFolder();
    await fill(await open(folder), ['a']);
    const [model] = readdirSync(folder).filter((name) => name !== 'store.key');
    for (const name of [
      'notes.txt',
      '0123456789ab-0123456789abcdef.index',
      '0123456789ab-1123456789abcdef.blocks',
    ]) {
      writeFileSync(join(folder, model as string, name), randomBytes(1000));
    }
    const store = await open(folder);
    expect(store.stats()).toMatchObject({ blocks: 1, damaged: 0 });
    await expectAll(store, ['a']);
  });
});
