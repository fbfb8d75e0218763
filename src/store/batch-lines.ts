// Lines of batches in the database: added by a reader, leased to runners, answered once each.

import type { Lease, LineAnswer, LineName, LineQueue, TakenLine } from './batch-record.ts';
import type { Database, Tables } from './database.ts';
import { insertUsage, usageRow } from './usage-batch.ts';

// SQLite takes 32,766 parameters a statement; a row has seven.
const ROWS_PER_STATEMENT = 500;

export interface NewLine {
  readonly line: number;
  readonly customId: string;
  readonly body: string;
}

/** A line that nobody runs any more. */
export interface SettledLine {
  readonly line: number;
  readonly customId: string;
  readonly answer: string | undefined;
  readonly succeeded: boolean;
}

export class BatchLines implements LineQueue {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  nowMs(): Promise<number> {
    return this.#database.nowMs();
  }

  /** False where this owner no longer reads the batch. */
  async add(batchId: string, lines: readonly NewLine[], owner: string): Promise<boolean> {
    for (let at = 0; at < lines.length; at += ROWS_PER_STATEMENT) {
      const rows = lines.slice(at, at + ROWS_PER_STATEMENT).map(({ line, customId, body }) => ({
        batch_id: batchId,
        line,
        custom_id: customId,
        body,
        attempts: 0,
        until_ms: 0,
        owner: null,
        answered_ms: null,
        succeeded: null,
        answer: null,
      }));
      const isAdded = await this.#database.change(async (tables) => {
        if (!(await isReadBy(tables, batchId, owner))) return false;
        await tables.insertInto('batch_line').values(rows).execute();
        return true;
      });
      if (!isAdded) return false;
    }
    return true;
  }

  /** Deletes some lines so that this owner can read them again; false once there are none. */
  forgetRead(batchId: string, count: number, owner: string): Promise<boolean> {
    return this.#database.change(
      async (tables) => (await isReadBy(tables, batchId, owner)) && forgetSome(tables, batchId, count),
    );
  }

  async take(batchId: string, count: number, { owner, nowMs, untilMs }: Lease): Promise<TakenLine[]> {
    const rows = await this.#database.change((tables) =>
      tables
        .updateTable('batch_line')
        .set((column) => ({ owner, until_ms: untilMs, attempts: column('attempts', '+', 1) }))
        .where('batch_id', '=', batchId)
        .where('line', 'in', (select) =>
          select
            .selectFrom('batch_line')
            .select('line')
            .where('batch_id', '=', batchId)
            .where('answered_ms', 'is', null)
            .where('until_ms', '<=', nowMs)
            .orderBy('line')
            .limit(count),
        )
        // Another runner may have selected the same lines at the same time.
        .where('answered_ms', 'is', null)
        .where('until_ms', '<=', nowMs)
        .returning(['line', 'custom_id', 'body', 'attempts'])
        .execute(),
    );
    return rows
      .map(({ line, custom_id: customId, body, attempts }) => ({
        batchId,
        line,
        customId,
        body: body ?? '',
        attempts,
      }))
      .sort((a, b) => a.line - b.line);
  }

  async renew(lines: readonly LineName[], { owner, untilMs }: Lease): Promise<void> {
    if (lines.length === 0) return;
    const byBatch = new Map<string, number[]>();
    for (const { batchId, line } of lines) byBatch.set(batchId, [...(byBatch.get(batchId) ?? []), line]);
    await this.#database.change(async (tables) => {
      for (const [batchId, numbers] of byBatch) {
        await tables
          .updateTable('batch_line')
          .set({ until_ms: untilMs })
          .where('batch_id', '=', batchId)
          .where('line', 'in', numbers)
          .where('owner', '=', owner)
          .where('answered_ms', 'is', null)
          .execute();
      }
    });
  }

  async giveBack(
    { batchId, line }: LineName,
    owner: string,
    notBeforeMs: number,
    tried: boolean,
  ): Promise<void> {
    await this.#database.change((tables) =>
      tables
        .updateTable('batch_line')
        .set((column) => ({
          owner: null,
          until_ms: notBeforeMs,
          attempts: column('attempts', '-', tried ? 0 : 1),
        }))
        .where('batch_id', '=', batchId)
        .where('line', '=', line)
        .where('owner', '=', owner)
        .where('answered_ms', 'is', null)
        .execute(),
    );
  }

  async owners(): Promise<string[]> {
    const { tables } = this.#database;
    const ofLines = await tables
      .selectFrom('batch_line')
      .innerJoin('batch', 'batch.id', 'batch_line.batch_id')
      .select('batch_line.owner')
      .distinct()
      .where('batch.ended_ms', 'is', null)
      .where('batch_line.answered_ms', 'is', null)
      .where('batch_line.owner', 'is not', null)
      .execute();
    const ofBatches = await tables
      .selectFrom('batch')
      .select('owner')
      .distinct()
      .where('ended_ms', 'is', null)
      .where('owner', 'is not', null)
      .execute();
    return [...new Set([...ofLines, ...ofBatches].map(({ owner }) => owner as string))];
  }

  async giveBackAll(owner: string): Promise<void> {
    await this.#database.change(async (tables) => {
      const open = tables.selectFrom('batch').select('id').where('ended_ms', 'is', null);
      await tables
        .updateTable('batch_line')
        .set({ owner: null, until_ms: 0 })
        .where('batch_id', 'in', open)
        .where('answered_ms', 'is', null)
        .where('owner', '=', owner)
        .execute();
      await tables
        .updateTable('batch')
        .set({ owner: null, until_ms: 0 })
        .where('ended_ms', 'is', null)
        .where('owner', '=', owner)
        .execute();
    });
  }

  answer({ batchId, line }: LineName, keyId: string, answer: LineAnswer, nowMs: number): Promise<boolean> {
    const { text, succeeded, usage } = answer;
    const count = succeeded ? 'completed' : 'failed';
    return this.#database.change(async (tables) => {
      // First, so that an ending of the batch waits: what it then finds answered is final.
      const counted = await tables
        .updateTable('batch')
        .set((column) => ({ [count]: column(count, '+', 1) }))
        .where('id', '=', batchId)
        .where('state', '=', 'in_progress')
        .executeTakeFirstOrThrow();
      if (counted.numUpdatedRows === 0n) return false;
      const kept = await tables
        .updateTable('batch_line')
        .set({ answer: text, succeeded: succeeded ? 1 : 0, answered_ms: nowMs, body: null, owner: null })
        .where('batch_id', '=', batchId)
        .where('line', '=', line)
        .where('answered_ms', 'is', null)
        .executeTakeFirstOrThrow();
      if (kept.numUpdatedRows === 0n) {
        await tables
          .updateTable('batch')
          .set((column) => ({ [count]: column(count, '-', 1) }))
          .where('id', '=', batchId)
          .execute();
        return false;
      }
      if (usage !== undefined) await insertUsage(tables, [usageRow(keyId, usage, nowMs)]);
      return true;
    });
  }

  async settled(batchId: string, afterLine: number, limit: number): Promise<SettledLine[]> {
    const rows = await this.#database.tables
      .selectFrom('batch_line')
      .select(['line', 'custom_id', 'answer', 'succeeded'])
      .where('batch_id', '=', batchId)
      .where('line', '>', afterLine)
      .orderBy('line')
      .limit(limit)
      .execute();
    return rows.map(({ line, custom_id: customId, answer, succeeded }) => ({
      line,
      customId,
      answer: answer ?? undefined,
      succeeded: succeeded === 1,
    }));
  }

  /** Ended batches whose lines still exist. */
  async leftovers(): Promise<string[]> {
    const rows = await this.#database.tables
      .selectFrom('batch')
      .select('id')
      .where('ended_ms', 'is not', null)
      .where((where) =>
        where.exists(
          where
            .selectFrom('batch_line')
            .select('batch_line.line')
            .whereRef('batch_line.batch_id', '=', 'batch.id'),
        ),
      )
      .execute();
    return rows.map(({ id }) => id);
  }

  forget(batchId: string, count: number): Promise<boolean> {
    return this.#database.change((tables) => forgetSome(tables, batchId, count));
  }
}

/** The update keeps the batch from other owners until the transaction ends. */
export async function isReadBy(tables: Tables, batchId: string, owner: string): Promise<boolean> {
  const { numUpdatedRows } = await tables
    .updateTable('batch')
    .set({ owner })
    .where('id', '=', batchId)
    .where('state', '=', 'validating')
    .where('owner', '=', owner)
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0n;
}

async function forgetSome(tables: Tables, batchId: string, count: number): Promise<boolean> {
  const { numDeletedRows } = await tables
    .deleteFrom('batch_line')
    .where('batch_id', '=', batchId)
    .where('line', 'in', (select) =>
      select
        .selectFrom('batch_line')
        .select('line')
        .where('batch_id', '=', batchId)
        .orderBy('line')
        .limit(count),
    )
    .executeTakeFirstOrThrow();
  return numDeletedRows > 0n;
}
