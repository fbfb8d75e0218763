// Forgets conversations that nobody has gone on with for long, and the oldest of those keys that keep most where all
// together take too much. In small steps, since statements run on the thread that serves requests.

import { setImmediate as turn } from 'node:timers/promises';
import type { Database, Tables } from './database.ts';

const LOOK_EVERY_MS = 3_600_000;
/** Between looks so much of the limit may be written. */
const SHARE_BETWEEN_LOOKS = 1 / 32;
/** Pruning goes on until so much of the limit is left: it need not begin again at once. */
const SHARE_LEFT = 0.95;
const STEP = 16;

/** How long, and how much altogether. */
export interface ResponseRoom {
  readonly keepMs: number;
  readonly maxBytes: number;
}

export class ResponsePruner {
  readonly #database: Database;
  readonly #room: ResponseRoom;
  readonly #onProblem: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #written = 0;
  #closed = false;
  #pruning: Promise<void> | undefined;

  constructor(database: Database, room: ResponseRoom, onProblem: (error: unknown) => void) {
    this.#database = database;
    this.#room = room;
    this.#onProblem = onProblem;
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    // Whatever has grown old while nobody was running.
    setImmediate(() => this.#look()).unref();
  }

  wrote(bytes: number): void {
    this.#written += bytes;
    if (this.#written > this.#room.maxBytes * SHARE_BETWEEN_LOOKS) this.#look();
  }

  /** One at a time: who asks meanwhile comes next, since what is under way may have looked already. */
  prune(nowMs: number): Promise<void> {
    const before = this.#pruning?.catch(() => {}) ?? Promise.resolve();
    const pruning = before
      .then(() => {
        this.#written = 0;
        return this.#prune(nowMs);
      })
      .finally(() => {
        if (this.#pruning === pruning) this.#pruning = undefined;
      });
    this.#pruning = pruning;
    return pruning;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#pruning?.catch(() => {});
  }

  #look(): void {
    if (!this.#closed && this.#pruning === undefined) this.prune(Date.now()).catch(this.#onProblem);
  }

  async #prune(nowMs: number): Promise<void> {
    await this.#repeat(() => this.#oldOnes(nowMs - this.#room.keepMs));
    const { maxBytes } = this.#room;
    if ((await this.#totalBytes()) <= maxBytes) return;
    await this.#repeat(() => this.#surplus(maxBytes * SHARE_LEFT));
  }

  /** Until there is nothing more to forget; others have their turn between the steps. */
  async #repeat(choose: () => Promise<readonly string[]>): Promise<void> {
    while (!this.#closed) {
      const ids = await choose();
      if (ids.length === 0) return;
      await this.#database.change((tables) => forget(tables, ids));
      await turn();
    }
  }

  async #oldOnes(beforeMs: number): Promise<string[]> {
    const rows = await this.#database.tables
      .selectFrom('conversation')
      .select('id')
      .where('used_ms', '<', beforeMs)
      .orderBy('used_ms')
      .limit(STEP)
      .execute();
    return rows.map(({ id }) => id);
  }

  async #surplus(goalBytes: number): Promise<string[]> {
    const { tables } = this.#database;
    const owners = await tables
      .selectFrom('conversation')
      .select((column) => ['key_id', column.fn.sum<number>('bytes').as('bytes')])
      .groupBy('key_id')
      .orderBy('bytes', 'desc')
      .execute();
    const [largest] = owners;
    if (largest === undefined) return [];
    let surplus = owners.reduce((sum, { bytes }) => sum + bytes, 0) - goalBytes;
    const oldest = await tables
      .selectFrom('conversation')
      .select(['id', 'bytes'])
      .where('key_id', '=', largest.key_id)
      .orderBy('used_ms')
      .limit(STEP)
      .execute();
    return oldest.flatMap(({ id, bytes }) => {
      if (surplus <= 0) return [];
      surplus -= bytes;
      return [id];
    });
  }

  async #totalBytes(): Promise<number> {
    const row = await this.#database.tables
      .selectFrom('conversation')
      .select((column) => column.fn.sum<number | null>('bytes').as('bytes'))
      .executeTakeFirst();
    return row?.bytes ?? 0;
  }
}

/** The conversation first: who is adding to it then waits, and begins a new one. */
async function forget(tables: Tables, conversationIds: readonly string[]): Promise<void> {
  await tables.deleteFrom('conversation').where('id', 'in', conversationIds).execute();
  const responses = tables
    .selectFrom('response')
    .select('id')
    .where('conversation_id', 'in', conversationIds);
  await tables.deleteFrom('response_item').where('response_id', 'in', responses).execute();
  await tables.deleteFrom('response').where('conversation_id', 'in', conversationIds).execute();
}
