import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeStores } from '../../test/support/store-homes.ts';
import type { Database } from './database.ts';
import { FileStore } from './file-store.ts';

const NOW_MS = Date.now();
const DAY_MS = 86_400_000;

describeStores('files', (home) => {
  let database: Database;
  let store: FileStore;

  beforeEach(async () => {
    database = await home.open();
    store = new FileStore(database, (error) => expect.fail(String(error)));
  });

  afterEach(async () => {
    await store.close();
  });

  const begin = (maxKeyBytes = Number.POSITIVE_INFINITY, nowMs = NOW_MS) =>
    store.begin('key_a', { purpose: 'batch', name: 'a', expiresMs: undefined, maxKeyBytes }, nowMs);

  async function contents(id: string): Promise<Buffer> {
    const chunks: Buffer[] = [];
    for await (const chunk of store.chunks(id)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  const chunkCount = async () =>
    (await database.tables.selectFrom('file_chunk').select('position').execute()).length;

  describe('a file', () => {
    it('is the same however it was cut when it came', async () => {
      const bytes = Buffer.from(Uint8Array.from({ length: 700_000 }, (_, at) => (at * 31) % 251));
      for (const pieceBytes of [1_000, 65_536, 262_144, 700_000]) {
        const writer = await begin();
        for (let at = 0; at < bytes.length; at += pieceBytes)
          await writer.write(bytes.subarray(at, at + pieceBytes));
        await writer.complete('batch', undefined);
        expect((await contents(writer.id)).equals(bytes)).toBe(true);
        expect(await store.find('key_a', writer.id)).toMatchObject({ bytes: bytes.length, purpose: 'batch' });
      }
    });

    it('is seen once it is complete, and removed after a day if it never is', async () => {
      const writer = await begin();
      await writer.write(Buffer.alloc(300_000));
      expect(await store.find('key_a', writer.id)).toBeUndefined();
      await store.prune(NOW_MS + DAY_MS - 1);
      expect(await chunkCount()).toBe(1);
      await store.prune(NOW_MS + DAY_MS + 1);
      expect(await chunkCount()).toBe(0);
    });

    it('has no room where the key has too much, those still being written included', async () => {
      const first = await begin(600_000);
      expect(await first.write(Buffer.alloc(300_000))).toBe('written');
      const second = await begin(600_000);
      await second.write(Buffer.alloc(262_144));
      expect(await second.write(Buffer.alloc(262_144))).toBe('no-room');
      await second.discard();
      expect(await first.write(Buffer.alloc(262_144))).toBe('written');
      await store.prune(NOW_MS);
      expect(await chunkCount()).toBe(2);
    });

    it('keeps what is complete, though who wrote it does not know and discards it', async () => {
      const writer = await begin(600_000);
      await writer.write(Buffer.from('answers'));
      await writer.complete('batch', undefined);
      await writer.discard();
      await store.prune(NOW_MS);
      expect(await chunkCount()).toBe(1);
    });
  });
});
