// Usage per key and UTC day. Recording only adds to memory; once a second what has gathered is written in one
// statement, so a crash costs at most that second. What cannot be written stays in memory, one row for each key and
// day, until it can.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from './database.ts';
import type { KeyUsageTable } from './schema.ts';
import { utcDay } from './usage-day.ts';
import { mergeUsage, reportUsage, sumUsage, type UsageQuery, type UsageRow } from './usage-report.ts';

const FLUSH_AFTER_MS = 1000;
/** How long the last write is tried when the store closes. */
const CLOSE_MS = 5000;
const CLOSE_RETRY_MS = 50;
/** After failures the next try comes later and later. */
const LONGEST_PAUSE_MS = 30_000;
// SQLite takes 32,766 parameters a statement; a row has seven.
const ROWS_PER_STATEMENT = 1000;

/** What one request used. Prompt tokens include the cached ones. */
export interface RequestUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly failed: boolean;
}

export class UsageStore {
  readonly #database: Database;
  readonly #onProblem: (error: unknown) => void;
  #pending = new Map<string, UsageRow>();
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = FLUSH_AFTER_MS;
  #writing: Promise<void> = Promise.resolve();

  /** `onProblem` hears of failed writes; their counts are kept and tried again. */
  constructor(database: Database, onProblem: (error: unknown) => void) {
    this.#database = database;
    this.#onProblem = onProblem;
  }

  /** Counts one request that ended at that time. */
  record(keyId: string, usage: RequestUsage, nowMs: number): void {
    const { promptTokens, cachedTokens, completionTokens, failed } = usage;
    const counts = { requests: 1, promptTokens, cachedTokens, completionTokens, errors: failed ? 1 : 0 };
    this.#gather({ keyId, day: utcDay(nowMs), ...counts });
    this.#flushSoon();
  }

  /** Writes all that was recorded before the call. */
  flush(): Promise<void> {
    const flushed = this.#writing.then(() => this.#write());
    this.#writing = flushed.catch(nothing);
    return flushed;
  }

  /** The usage on disk and in memory, by day, then key. */
  report(query: UsageQuery): Promise<UsageRow[]> {
    const reported = this.#writing.then(async () => {
      await this.#write().catch(this.#onProblem);
      const written = await reportUsage(this.#database, query);
      // Nothing else is written before this is over, so no row counts twice.
      return mergeUsage(written, [...this.#pending.values()], query);
    });
    this.#writing = reported.then(nothing, nothing);
    return reported;
  }

  /** Prompt and completion tokens of each key on the UTC day of that time: what daily limits start from. */
  async tokensOfDay(nowMs: number): Promise<Map<string, number>> {
    const day = utcDay(nowMs);
    const rows = await this.report({ fromDay: day, toDay: day });
    return new Map(rows.map((row) => [row.keyId, row.promptTokens + row.completionTokens]));
  }

  /** Writes what is left; waits a while for a database that others hold. It stays open. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const endMs = performance.now() + CLOSE_MS;
    for (;;) {
      try {
        return await this.flush();
      } catch (error) {
        if (performance.now() >= endMs) throw error;
        await sleep(CLOSE_RETRY_MS);
      }
    }
  }

  #flushSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.flush().then(
        () => {
          this.#pauseMs = FLUSH_AFTER_MS;
        },
        (error: unknown) => {
          this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
          this.#onProblem(error);
          this.#flushSoon();
        },
      );
    }, this.#pauseMs).unref();
  }

  #gather(row: UsageRow): void {
    const slot = `${row.day} ${row.keyId}`;
    const before = this.#pending.get(slot);
    this.#pending.set(slot, before === undefined ? row : { ...row, ...sumUsage([before, row]) });
  }

  async #write(): Promise<void> {
    const rows = [...this.#pending.values()];
    this.#pending = new Map();
    while (rows.length > 0) {
      const batch = rows.splice(0, ROWS_PER_STATEMENT);
      try {
        // Tried again later anyway, so a lock is not waited for.
        await this.#database.change(() => this.#add(batch), 0);
      } catch (error) {
        for (const row of [...batch, ...rows]) this.#gather(row);
        throw error;
      }
    }
  }

  async #add(rows: readonly UsageRow[]): Promise<void> {
    await this.#database.tables
      .insertInto('key_usage')
      .values(rows.map(rowForTable))
      .onConflict((conflict) =>
        conflict.columns(['key_id', 'day']).doUpdateSet((column) => ({
          requests: column('key_usage.requests', '+', column.ref('excluded.requests')),
          prompt_tokens: column('key_usage.prompt_tokens', '+', column.ref('excluded.prompt_tokens')),
          cached_tokens: column('key_usage.cached_tokens', '+', column.ref('excluded.cached_tokens')),
          completion_tokens: column(
            'key_usage.completion_tokens',
            '+',
            column.ref('excluded.completion_tokens'),
          ),
          errors: column('key_usage.errors', '+', column.ref('excluded.errors')),
        })),
      )
      .execute();
  }
}

const nothing = () => undefined;

function rowForTable(row: UsageRow): KeyUsageTable {
  return {
    key_id: row.keyId,
    day: row.day,
    requests: row.requests,
    prompt_tokens: row.promptTokens,
    cached_tokens: row.cachedTokens,
    completion_tokens: row.completionTokens,
    errors: row.errors,
  };
}
