// Writes a file chunk by chunk, so that a slow sender holds no lock. The file is visible once complete; an incomplete
// one is removed after a day.

import { Buffer } from 'node:buffer';
import type { Database } from './database.ts';

const CHUNK_BYTES = 256 * 1024;

interface WrittenFile {
  readonly id: string;
  readonly keyId: string;
  readonly maxKeyBytes: number;
}

/** `no-room`: the key's limit is reached. */
type WriteResult = 'written' | 'no-room';

export class FileWriter {
  readonly id: string;
  readonly #database: Database;
  readonly #of: WrittenFile;
  #gathered: Uint8Array[] = [];
  #gatheredBytes = 0;
  #position = 0;
  #bytes = 0;

  constructor(database: Database, of: WrittenFile) {
    this.id = of.id;
    this.#database = database;
    this.#of = of;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async write(piece: Uint8Array): Promise<WriteResult> {
    this.#gathered.push(piece);
    this.#gatheredBytes += piece.length;
    this.#bytes += piece.length;
    if (this.#gatheredBytes < CHUNK_BYTES) return 'written';
    const all = Buffer.concat(this.#gathered);
    const whole = all.length - (all.length % CHUNK_BYTES);
    this.#gathered = whole === all.length ? [] : [all.subarray(whole)];
    this.#gatheredBytes = all.length - whole;
    for (let at = 0; at < whole; at += CHUNK_BYTES) {
      if ((await this.#store(all.subarray(at, at + CHUNK_BYTES))) === 'no-room') return 'no-room';
    }
    return 'written';
  }

  async flush(): Promise<WriteResult> {
    const rest = Buffer.concat(this.#gathered);
    this.#gathered = [];
    this.#gatheredBytes = 0;
    return rest.length === 0 ? 'written' : this.#store(rest);
  }

  async complete(purpose: string, expiresMs: number | undefined): Promise<WriteResult> {
    const flushed = await this.flush();
    if (flushed === 'no-room') return flushed;
    await this.#database.change((tables) =>
      tables
        .updateTable('file')
        .set({ complete: 1, purpose, expires_ms: expiresMs ?? null })
        .where('id', '=', this.id)
        .execute(),
    );
    return 'written';
  }

  /** What is complete stays: the change that made it so may have been made though its answer was lost. */
  async discard(): Promise<void> {
    await this.#database.change((tables) =>
      tables
        .updateTable('file')
        .set({ bytes: 0, expires_ms: 0 })
        .where('id', '=', this.id)
        .where('complete', '=', 0)
        .execute(),
    );
  }

  async #store(body: Uint8Array): Promise<WriteResult> {
    const position = this.#position;
    const result = await this.#database.change(async (tables): Promise<WriteResult> => {
      const row = await tables
        .selectFrom('file')
        .select((column) => column.fn.sum<number | string>('bytes').as('bytes'))
        .where('key_id', '=', this.#of.keyId)
        .executeTakeFirst();
      if (Number(row?.bytes ?? 0) + body.length > this.#of.maxKeyBytes) return 'no-room';
      await tables.insertInto('file_chunk').values({ file_id: this.id, position, body }).execute();
      await tables
        .updateTable('file')
        .set((column) => ({ bytes: column('bytes', '+', body.length) }))
        .where('id', '=', this.id)
        .execute();
      return 'written';
    });
    this.#position = position + 1;
    return result;
  }
}
