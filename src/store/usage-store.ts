// Records usage per key and UTC day. Records collect in memory and are written as one batch every second (embedded)
// or tenth of a second (Postgres): a crash loses at most that, unless the caller waits for `written`. A failed batch
// is kept and written again under the same id, and counts once.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from './database.ts';
import type { RequestUsage } from './usage-batch.ts';
import { isWritten, largerOf, type UsageBatch, usageRow, writeBatch } from './usage-batch.ts';
import {
  addRow,
  DAY_MS,
  gathered,
  mergeUsage,
  reportUsage,
  type UsageQuery,
  type UsageRow,
  utcDay,
} from './usage-report.ts';

const FLUSH_AFTER_MS = { embedded: 1000, postgres: 100 } as const;
const CLOSE_MS = 5000;
const CLOSE_RETRY_MS = 50;
/** After failures the pause doubles up to this. */
const LONGEST_PAUSE_MS = 30_000;
// SQLite takes 32,766 parameters a statement; a row has seven.
const ROWS_PER_STATEMENT = 1000;

export class UsageStore {
  readonly #database: Database;
  readonly #onProblem: (error: unknown) => void;
  #pending = new Map<string, UsageRow>();
  #pendingOnce = new Map<string, UsageRow>();
  /** Maybe written: it is retried unchanged before any other. */
  #tried: UsageBatch | undefined;
  #lastId: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pauseMs: number;
  #writing: Promise<void> = Promise.resolve();

  /** `onProblem` gets failed writes, which are retried. */
  constructor(database: Database, onProblem: (error: unknown) => void) {
    this.#database = database;
    this.#onProblem = onProblem;
    this.#pauseMs = FLUSH_AFTER_MS[database.kind];
  }

  record(keyId: string, usage: RequestUsage, nowMs: number): void {
    addRow(this.#pending, usageRow(keyId, usage, nowMs));
    this.#flushSoon();
  }

  /** For a request that may be reported several times within two days: the largest counts are charged, once. */
  recordOnce(requestId: string, keyId: string, usage: RequestUsage, nowMs: number): void {
    this.#addOnce(requestId, usageRow(keyId, usage, nowMs));
    this.#flushSoon();
  }

  flush(): Promise<void> {
    const flushed = this.#writing.then(() => this.#write());
    this.#writing = flushed.catch(nothing);
    return flushed;
  }

  /** Resolves when all records are written, after the limit, or at once where writes currently fail. */
  async written(limitMs: number): Promise<void> {
    if (this.#pauseMs > FLUSH_AFTER_MS[this.#database.kind]) return;
    const waiting = new AbortController();
    const late = sleep(limitMs, undefined, { signal: waiting.signal }).catch(nothing);
    await Promise.race([this.flush().catch(nothing), late]);
    waiting.abort();
  }

  /** Includes what is not written yet. By day, then key. */
  report(query: UsageQuery): Promise<UsageRow[]> {
    const reported = this.#writing.then(async () => {
      await this.#write().catch(this.#onProblem);
      const written = await reportUsage(this.#database, query);
      // Nothing is written until this ends, so no row counts twice.
      return mergeUsage(written, await this.#unwritten(), query);
    });
    this.#writing = reported.then(nothing, nothing);
    return reported;
  }

  /** Prompt and completion tokens of each key for the last `days` UTC days, oldest first: the start of daily limits. */
  async tokensOfDays(days: number, nowMs: number): Promise<Map<string, number[]>> {
    const names = Array.from({ length: days }, (_, at) => utcDay(nowMs - (days - 1 - at) * DAY_MS));
    const rows = await this.report({ fromDay: names[0] as string, toDay: utcDay(nowMs) });
    const tokens = new Map<string, number[]>();
    for (const { keyId, day, promptTokens, completionTokens } of rows) {
      const byDay = tokens.get(keyId) ?? names.map(() => 0);
      byDay[names.indexOf(day)] = promptTokens + completionTokens;
      tokens.set(keyId, byDay);
    }
    return tokens;
  }

  /** Retries a busy database for a while. Leaves it open. */
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

  #addOnce(requestId: string, row: UsageRow): void {
    const before = this.#pendingOnce.get(requestId);
    this.#pendingOnce.set(requestId, before === undefined ? row : largerOf(before, row));
  }

  #flushSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.flush().then(
        () => {
          this.#pauseMs = FLUSH_AFTER_MS[this.#database.kind];
        },
        (error: unknown) => {
          this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
          this.#onProblem(error);
          this.#flushSoon();
        },
      );
    }, this.#pauseMs).unref();
  }

  async #unwritten(): Promise<UsageRow[]> {
    const tried = this.#tried;
    const kept = tried === undefined || (await isWritten(this.#database, tried.id)) ? [] : rowsOf(tried);
    return gathered([...kept, ...this.#pending.values(), ...this.#pendingOnce.values()]);
  }

  async #write(): Promise<void> {
    if (this.#tried !== undefined) await this.#writeBatch(this.#tried);
    const batches = batchesOf([...this.#pending.values()], [...this.#pendingOnce]);
    this.#pending = new Map();
    this.#pendingOnce = new Map();
    for (const [at, batch] of batches.entries()) {
      try {
        await this.#writeBatch(batch);
      } catch (error) {
        // The remaining batches were not tried.
        for (const { rows, once } of batches.slice(at + 1)) {
          for (const row of rows) addRow(this.#pending, row);
          for (const [requestId, row] of once) this.#addOnce(requestId, row);
        }
        throw error;
      }
    }
  }

  async #writeBatch(batch: UsageBatch): Promise<void> {
    this.#tried = batch;
    // A later retry follows anyway, so a lock is not waited for.
    await this.#database.change(
      async (tables) => writeBatch(tables, batch, this.#lastId, await this.#database.nowMs(tables)),
      0,
    );
    this.#tried = undefined;
    this.#lastId = batch.id;
  }
}

const nothing = () => undefined;

function batchesOf(rows: UsageRow[], once: [requestId: string, row: UsageRow][]): UsageBatch[] {
  const batches: UsageBatch[] = [];
  while (rows.length > 0 || once.length > 0) {
    batches.push({
      id: randomUUID(),
      rows: rows.splice(0, ROWS_PER_STATEMENT),
      once: new Map(once.splice(0, ROWS_PER_STATEMENT)),
    });
  }
  return batches;
}

function rowsOf({ rows, once }: UsageBatch): UsageRow[] {
  return [...rows, ...once.values()];
}
