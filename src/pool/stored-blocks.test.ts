import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BlockStore } from '../block-store/block-store.ts';
import { removeStored } from './stored-blocks.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-stored-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const keyOf = (number: number) => new Uint8Array(32).fill(number);

async function withStore<Result>(
  name: string,
  use: (store: BlockStore) => Promise<Result>,
  keyFile?: string,
): Promise<Result> {
  const model = { name, identity: name };
  const store = await BlockStore.open({ folder, model, sizeBytes: 1 << 24, keyFile, warn: () => {} });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

it('a tenant’s blocks are deleted of every model, and those of others stay', async () => {
  for (const name of ['one', 'two']) {
    await withStore(name, async (store) => {
      store.write(keyOf(1), 'ann', new Uint8Array(100).fill(1));
      store.write(keyOf(2), 'bob', new Uint8Array(100).fill(2));
    });
  }
  expect(removeStored(folder, 'ann')).toBe(2);
  expect(removeStored(folder, 'ann')).toBe(0);
  for (const name of ['one', 'two']) {
    const read = await withStore(name, (store) => store.read([keyOf(1), keyOf(2)]));
    expect(read).toEqual([undefined, new Uint8Array(100).fill(2)]);
  }
});

it('a tenant’s blocks are deleted where the key of the store is elsewhere', async () => {
  const keyFile = join(folder, 'elsewhere', 'key');
  await withStore('one', async (store) => void store.write(keyOf(1), 'ann', new Uint8Array(100)), keyFile);
  expect(removeStored(folder, 'ann')).toBe(0);
  expect(removeStored(folder, 'ann', keyFile)).toBe(1);
});

it('where there is no store, there is nothing to delete', () => {
  expect(removeStored(join(folder, 'none'), 'ann')).toBe(0);
});
