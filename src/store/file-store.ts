// Files of clients, stored in chunks so that none is ever whole in memory. A file belongs to a key.

import { Buffer } from 'node:buffer';
import type { Database } from './database.ts';
import { FileWriter } from './file-writer.ts';
import { type Page, type PageQuery, pageOf, sortableId } from './page.ts';
import { Pruner, pruneFiles } from './pruner.ts';
import type { FileTable } from './schema.ts';

const PRUNE_EVERY_MS = 600_000;

export interface FileRecord {
  readonly id: string;
  readonly purpose: string;
  readonly name: string;
  readonly bytes: number;
  readonly createdMs: number;
  readonly expiresMs: number | undefined;
}

interface NewFile {
  readonly purpose: string;
  readonly name: string;
  readonly expiresMs: number | undefined;
  /** Limit for all files of the key together. */
  readonly maxKeyBytes: number;
}

interface FileQuery extends PageQuery {
  readonly purpose?: string | undefined;
}

export class FileStore {
  readonly #database: Database;
  readonly #pruner: Pruner;

  constructor(database: Database, onProblem: (error: unknown) => void) {
    this.#database = database;
    const prune = (nowMs: number, isClosed: () => boolean) => pruneFiles(database, nowMs, isClosed);
    this.#pruner = new Pruner(PRUNE_EVERY_MS, prune, () => this.nowMs(), onProblem);
  }

  nowMs(): Promise<number> {
    return this.#database.nowMs();
  }

  async begin(keyId: string, file: NewFile, nowMs: number): Promise<FileWriter> {
    const id = sortableId('file-', nowMs);
    const { purpose, name, expiresMs, maxKeyBytes } = file;
    await this.#database.change((tables) =>
      tables
        .insertInto('file')
        .values({
          id,
          key_id: keyId,
          purpose,
          name,
          bytes: 0,
          complete: 0,
          created_ms: nowMs,
          expires_ms: expiresMs ?? null,
        })
        .execute(),
    );
    return new FileWriter(this.#database, { id, keyId, maxKeyBytes });
  }

  async find(keyId: string, id: string): Promise<FileRecord | undefined> {
    const row = await this.#database.tables
      .selectFrom('file')
      .selectAll()
      .where('id', '=', id)
      .where('key_id', '=', keyId)
      .where('complete', '=', 1)
      .executeTakeFirst();
    return row && recordOf(row);
  }

  async list(keyId: string, { after, limit, order, purpose }: FileQuery): Promise<Page<FileRecord>> {
    let select = this.#database.tables
      .selectFrom('file')
      .selectAll()
      .where('key_id', '=', keyId)
      .where('complete', '=', 1);
    if (purpose !== undefined) select = select.where('purpose', '=', purpose);
    if (after !== undefined) select = select.where('id', order === 'asc' ? '>' : '<', after);
    const rows = await select
      .orderBy('id', order)
      .limit(limit + 1)
      .execute();
    return pageOf(rows.map(recordOf), limit);
  }

  /** Ends early where the file is removed meanwhile. */
  async *chunks(id: string): AsyncGenerator<Buffer> {
    for (let position = 0; ; position++) {
      const row = await this.#database.tables
        .selectFrom('file_chunk')
        .select('body')
        .where('file_id', '=', id)
        .where('position', '=', position)
        .executeTakeFirst();
      if (row === undefined) return;
      yield Buffer.from(row.body);
    }
  }

  /** The file disappears at once; its chunks are removed later. */
  async remove(keyId: string, id: string): Promise<boolean> {
    const removed = await this.#database.change(async (tables) => {
      const { numUpdatedRows } = await tables
        .updateTable('file')
        .set({ complete: 0, bytes: 0, expires_ms: 0 })
        .where('id', '=', id)
        .where('key_id', '=', keyId)
        .where('complete', '=', 1)
        .executeTakeFirstOrThrow();
      return numUpdatedRows > 0n;
    });
    if (removed) this.#pruner.start();
    return removed;
  }

  prune(nowMs: number): Promise<void> {
    return this.#pruner.prune(nowMs);
  }

  close(): Promise<void> {
    return this.#pruner.close();
  }
}

function recordOf(row: FileTable): FileRecord {
  return {
    id: row.id,
    purpose: row.purpose,
    name: row.name,
    bytes: row.bytes,
    createdMs: row.created_ms,
    expiresMs: row.expires_ms ?? undefined,
  };
}
