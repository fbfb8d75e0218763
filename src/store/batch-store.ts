// Batches and their states. Each transition names the state it leaves, so that one of several callers makes it.

import { isReadBy } from './batch-lines.ts';
import {
  type BatchEnding,
  type BatchProblem,
  type BatchRecord,
  type BatchState,
  batchOf,
  type Lease,
  type NewBatch,
} from './batch-record.ts';
import type { Database, Tables } from './database.ts';
import { type Page, type PageQuery, pageOf, sortableId } from './page.ts';
import type { BatchTable } from './schema.ts';

/** More than a server runs at a time; the rest waits. */
const MOST_OPEN = 4096;

interface BatchFiles {
  readonly outputFileId: string | undefined;
  readonly errorFileId: string | undefined;
  readonly expiresMs: number | undefined;
}

type Change = Partial<Omit<BatchTable, 'id' | 'key_id'>>;

export class BatchStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  nowMs(): Promise<number> {
    return this.#database.nowMs();
  }

  async create(keyId: string, batch: NewBatch, nowMs: number): Promise<BatchRecord> {
    const row: BatchTable = {
      id: sortableId('batch_', nowMs),
      key_id: keyId,
      state: 'validating',
      ending: null,
      endpoint: batch.endpoint,
      input_file_id: batch.inputFileId,
      output_file_id: null,
      error_file_id: null,
      output_seconds: batch.outputSeconds ?? null,
      metadata: batch.metadata === undefined ? null : JSON.stringify(batch.metadata),
      errors: null,
      total: 0,
      completed: 0,
      failed: 0,
      created_ms: nowMs,
      expires_ms: batch.expiresMs,
      in_progress_ms: null,
      finalizing_ms: null,
      cancelling_ms: null,
      ended_ms: null,
      owner: null,
      until_ms: 0,
    };
    await this.#database.change((tables) => tables.insertInto('batch').values(row).execute());
    return batchOf(row);
  }

  /** `keyId`: undefined for any key. */
  async find(keyId: string | undefined, id: string): Promise<BatchRecord | undefined> {
    let select = this.#database.tables.selectFrom('batch').selectAll().where('id', '=', id);
    if (keyId !== undefined) select = select.where('key_id', '=', keyId);
    const row = await select.executeTakeFirst();
    return row && batchOf(row);
  }

  /** `keyId`: undefined for all keys. `endpoint`: only batches of that one. */
  async list(
    keyId: string | undefined,
    { after, limit, order }: PageQuery,
    endpoint?: string,
  ): Promise<Page<BatchRecord>> {
    let select = this.#database.tables.selectFrom('batch').selectAll();
    if (keyId !== undefined) select = select.where('key_id', '=', keyId);
    if (endpoint !== undefined) select = select.where('endpoint', '=', endpoint);
    if (after !== undefined) select = select.where('id', order === 'asc' ? '>' : '<', after);
    const rows = await select
      .orderBy('id', order)
      .limit(limit + 1)
      .execute();
    return pageOf(rows.map(batchOf), limit);
  }

  async countOpen(keyId: string): Promise<number> {
    const row = await this.#database.tables
      .selectFrom('batch')
      .select((column) => column.fn.countAll<number | string>().as('count'))
      .where('key_id', '=', keyId)
      .where('ended_ms', 'is', null)
      .executeTakeFirstOrThrow();
    return Number(row.count);
  }

  async open(): Promise<BatchRecord[]> {
    const rows = await this.#database.tables
      .selectFrom('batch')
      .selectAll()
      .where('ended_ms', 'is', null)
      .orderBy('id')
      .limit(MOST_OPEN)
      .execute();
    return rows.map(batchOf);
  }

  /** Whether the batch is in that state and now leased to this owner, to read its lines or write its files. */
  claim(id: string, state: BatchState, { owner, nowMs, untilMs }: Lease): Promise<boolean> {
    return this.#database.change(async (tables) => {
      const { numUpdatedRows } = await tables
        .updateTable('batch')
        .set({ owner, until_ms: untilMs })
        .where('id', '=', id)
        .where('state', '=', state)
        .where((where) => where.or([where('owner', '=', owner), where('until_ms', '<=', nowMs)]))
        .executeTakeFirstOrThrow();
      return numUpdatedRows > 0n;
    });
  }

  /** False where not all lines were read by this owner; the batch is then read again. */
  begin(id: string, total: number, owner: string, nowMs: number): Promise<boolean> {
    return this.#database.change(async (tables) => {
      if (!(await isReadBy(tables, id, owner))) return false;
      const { count } = await tables
        .selectFrom('batch_line')
        .select((column) => column.fn.countAll<number | string>().as('count'))
        .where('batch_id', '=', id)
        .executeTakeFirstOrThrow();
      if (Number(count) !== total) return false;
      const begun = { state: 'in_progress', total, in_progress_ms: nowMs, owner: null, until_ms: 0 };
      return update(tables, id, ['validating'], begun);
    });
  }

  fail(id: string, errors: readonly BatchProblem[], nowMs: number): Promise<boolean> {
    const change = { state: 'failed', errors: JSON.stringify(errors), ended_ms: nowMs } as const;
    return this.#advance(id, ['validating'], change);
  }

  finalize(
    id: string,
    ending: Exclude<BatchEnding, 'cancelled'>,
    nowMs: number,
    errors: readonly BatchProblem[] = [],
  ): Promise<boolean> {
    const problems = errors.length === 0 ? {} : { errors: JSON.stringify(errors) };
    const change = { state: 'finalizing', ending, finalizing_ms: nowMs, ...problems } as const;
    return this.#advance(id, ['in_progress'], change);
  }

  cancel(id: string, nowMs: number): Promise<boolean> {
    const change = { state: 'cancelling', ending: 'cancelled', cancelling_ms: nowMs } as const;
    return this.#advance(id, ['validating', 'in_progress'], change);
  }

  finish(id: string, ending: BatchEnding, files: BatchFiles, nowMs: number): Promise<boolean> {
    const { outputFileId, errorFileId, expiresMs } = files;
    return this.#database.change(async (tables) => {
      const ended = await update(tables, id, ['finalizing', 'cancelling'], {
        state: ending,
        output_file_id: outputFileId ?? null,
        error_file_id: errorFileId ?? null,
        ended_ms: nowMs,
      });
      const fileIds = [outputFileId, errorFileId].filter((one) => one !== undefined);
      if (ended && fileIds.length > 0) {
        await tables
          .updateTable('file')
          .set({ complete: 1, expires_ms: expiresMs ?? null })
          .where('id', 'in', fileIds)
          .execute();
      }
      return ended;
    });
  }

  /** Whether it had ended, and is gone. */
  remove(keyId: string, id: string): Promise<boolean> {
    return this.#database.change(async (tables) => {
      const { numDeletedRows } = await tables
        .deleteFrom('batch')
        .where('id', '=', id)
        .where('key_id', '=', keyId)
        .where('ended_ms', 'is not', null)
        .executeTakeFirstOrThrow();
      return numDeletedRows > 0n;
    });
  }

  async prune(endedBeforeMs: number): Promise<void> {
    await this.#database.change((tables) =>
      tables.deleteFrom('batch').where('ended_ms', '<', endedBeforeMs).execute(),
    );
  }

  #advance(id: string, from: readonly string[], change: Change): Promise<boolean> {
    return this.#database.change((tables) => update(tables, id, from, change));
  }
}

async function update(tables: Tables, id: string, from: readonly string[], change: Change): Promise<boolean> {
  const { numUpdatedRows } = await tables
    .updateTable('batch')
    .set(change)
    .where('id', '=', id)
    .where('state', 'in', from)
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0n;
}
