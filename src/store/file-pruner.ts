// Removes files that have expired, were deleted or were never completed. In small steps, since statements run on the thread
// that serves requests.

import { setImmediate as turn } from 'node:timers/promises';
import type { Database } from './database.ts';
import { DAY_MS } from './usage-day.ts';

const LOOK_EVERY_MS = 600_000;
const FILES_AT_ONCE = 16;
/** Four megabytes. */
const CHUNKS_AT_ONCE = 16;

export class FilePruner {
  readonly #database: Database;
  readonly #onProblem: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #closed = false;
  #pruning: Promise<void> | undefined;

  constructor(database: Database, onProblem: (error: unknown) => void) {
    this.#database = database;
    this.#onProblem = onProblem;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS).unref();
    // Whatever has expired while nobody was running.
    setImmediate(() => this.look()).unref();
  }

  look(): void {
    if (!this.#closed) this.prune(Date.now()).catch(this.#onProblem);
  }

  /** One at a time, one after the other. */
  prune(nowMs: number): Promise<void> {
    const before = this.#pruning ?? Promise.resolve();
    this.#pruning = before.catch(() => {}).then(() => this.#prune(nowMs));
    return this.#pruning;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#pruning?.catch(() => {});
  }

  async #prune(nowMs: number): Promise<void> {
    while (!this.#closed) {
      const files = await this.#database.tables
        .selectFrom('file')
        .select('id')
        .where((where) =>
          where.or([
            where('expires_ms', '<=', nowMs),
            where.and([where('complete', '=', 0), where('created_ms', '<', nowMs - DAY_MS)]),
          ]),
        )
        .limit(FILES_AT_ONCE)
        .execute();
      if (files.length === 0) return;
      for (const { id } of files) await this.#remove(id);
    }
  }

  /** What an interruption leaves is found again by its row, which goes last. */
  async #remove(id: string): Promise<void> {
    await this.#database.change((tables) =>
      tables.updateTable('file').set({ complete: 0, bytes: 0 }).where('id', '=', id).execute(),
    );
    for (let more = true; more && !this.#closed; ) {
      more = await this.#database.change(async (tables) => {
        const rows = await tables
          .selectFrom('file_chunk')
          .select('position')
          .where('file_id', '=', id)
          .orderBy('position', 'desc')
          .limit(CHUNKS_AT_ONCE)
          .execute();
        const from = rows.at(-1)?.position;
        if (from === undefined) {
          await tables.deleteFrom('file').where('id', '=', id).execute();
          return false;
        }
        await tables
          .deleteFrom('file_chunk')
          .where('file_id', '=', id)
          .where('position', '>=', from)
          .execute();
        return true;
      });
      await turn();
    }
  }
}
