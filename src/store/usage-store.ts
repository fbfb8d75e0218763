// Usage per key and UTC day. Recording only adds to memory; what has gathered within a second, or a tenth of one in Postgres, is
// written as one batch, so a crash costs at most that time; who cannot bear that waits until it is written. What cannot be
// written stays in memory, one row for each key and day, until it can. A batch that was lost on its way is written again under
// the same id, and counts once.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from './database.ts';
import { isWritten, type UsageBatch, usageRow, writeBatch } from './usage-batch.ts';
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

/** A file on a small machine is written less often than a database that is there to be written. */
const FLUSH_AFTER_MS = { embedded: 1000, postgres: 100 } as const;
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
  /** Of requests that count once, by request. */
  #pendingOnce = new Map<string, UsageRow>();
  /** Tried, and maybe written: it goes again before any other, as it is. */
  #tried: UsageBatch | undefined;
  #lastId: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pauseMs: number;
  #writing: Promise<void> = Promise.resolve();

  /** `onProblem` hears of failed writes; their counts are kept and tried again. */
  constructor(database: Database, onProblem: (error: unknown) => void) {
    this.#database = database;
    this.#onProblem = onProblem;
    this.#pauseMs = FLUSH_AFTER_MS[database.kind];
  }

  /** Counts one request that ended at that time. */
  record(keyId: string, usage: RequestUsage, nowMs: number): void {
    addRow(this.#pending, usageRow(keyId, usage, nowMs));
    this.#flushSoon();
  }

  /**
   * The same for a request that somebody else may tell of, too: whoever is first is believed, on whatever gateway, for
   * two days.
   */
  recordOnce(requestId: string, keyId: string, usage: RequestUsage, nowMs: number): void {
    if (this.#pendingOnce.has(requestId)) return;
    this.#pendingOnce.set(requestId, usageRow(keyId, usage, nowMs));
    this.#flushSoon();
  }

  /** Writes all that was recorded before the call. */
  flush(): Promise<void> {
    const flushed = this.#writing.then(() => this.#write());
    this.#writing = flushed.catch(nothing);
    return flushed;
  }

  /** Resolves when all that was recorded is written; or after that time, and at once where nothing can be: it is written later. */
  async written(limitMs: number): Promise<void> {
    if (this.#pauseMs > FLUSH_AFTER_MS[this.#database.kind]) return;
    const waiting = new AbortController();
    const late = sleep(limitMs, undefined, { signal: waiting.signal }).catch(nothing);
    await Promise.race([this.flush().catch(nothing), late]);
    waiting.abort();
  }

  /** The usage on disk and in memory, by day, then key. */
  report(query: UsageQuery): Promise<UsageRow[]> {
    const reported = this.#writing.then(async () => {
      await this.#write().catch(this.#onProblem);
      const written = await reportUsage(this.#database, query);
      // Nothing else is written before this is over, so no row counts twice.
      return mergeUsage(written, await this.#unwritten(), query);
    });
    this.#writing = reported.then(nothing, nothing);
    return reported;
  }

  /**
   * Prompt and completion tokens of each key on so many UTC days up to that of the time, the oldest first: what daily
   * limits start from.
   */
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

  /** One row for each key and day. */
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
        // The others were not tried.
        for (const { rows, once } of batches.slice(at + 1)) {
          for (const row of rows) addRow(this.#pending, row);
          for (const [requestId, row] of once) this.#pendingOnce.set(requestId, row);
        }
        throw error;
      }
    }
  }

  async #writeBatch(batch: UsageBatch): Promise<void> {
    this.#tried = batch;
    // Tried again later anyway, so a lock is not waited for.
    await this.#database.change((tables) => writeBatch(tables, batch, this.#lastId, Date.now()), 0);
    this.#tried = undefined;
    this.#lastId = batch.id;
  }
}

const nothing = () => undefined;

/** As many as are needed for all of it. */
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
