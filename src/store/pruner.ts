// Removes what has expired, in small steps: statements run on the thread that serves requests.

import { setImmediate as turn } from 'node:timers/promises';
import type { Database, Tables } from './database.ts';
import { DAY_MS } from './usage-report.ts';

const FILES_AT_ONCE = 16;
/** Four megabytes. */
const CHUNKS_AT_ONCE = 16;
const CONVERSATIONS_AT_ONCE = 16;
/** Pruning goes on until this share of the limit is left, so that it need not begin again at once. */
const SHARE_LEFT = 0.95;

type IsClosed = () => boolean;
type Prune = (nowMs: number, isClosed: IsClosed) => Promise<void>;

/** Prunes at once, at an interval and on request, one run at a time. */
export class Pruner {
  readonly #prune: Prune;
  readonly #nowMs: () => Promise<number>;
  readonly #onProblem: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #closed = false;
  #running: Promise<void> | undefined;

  constructor(
    everyMs: number,
    prune: Prune,
    nowMs: () => Promise<number>,
    onProblem: (error: unknown) => void,
  ) {
    this.#prune = prune;
    this.#nowMs = nowMs;
    this.#onProblem = onProblem;
    this.#timer = setInterval(() => this.start(), everyMs).unref();
    // What has expired while no server was running.
    setImmediate(() => this.start()).unref();
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  start(): void {
    if (!this.#closed) this.prune().catch(this.#onProblem);
  }

  /** Begins after the current run, which may not see the latest changes. */
  prune(nowMs?: number): Promise<void> {
    const before = this.#running?.catch(() => {}) ?? Promise.resolve();
    const running = before
      .then(async () => this.#prune(nowMs ?? (await this.#nowMs()), () => this.#closed))
      .finally(() => {
        if (this.#running === running) this.#running = undefined;
      });
    this.#running = running;
    return running;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#running?.catch(() => {});
  }
}

/** Files that have expired, were deleted or were never completed. */
export async function pruneFiles(database: Database, nowMs: number, isClosed: IsClosed): Promise<void> {
  while (!isClosed()) {
    const files = await database.tables
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
    for (const { id } of files) await removeFile(database, id, isClosed);
  }
}

/** The row goes last, so that an interrupted removal is found again. */
async function removeFile(database: Database, id: string, isClosed: IsClosed): Promise<void> {
  await database.change((tables) =>
    tables.updateTable('file').set({ complete: 0, bytes: 0 }).where('id', '=', id).execute(),
  );
  for (let more = true; more && !isClosed(); ) {
    more = await database.change(async (tables) => {
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
      await tables.deleteFrom('file_chunk').where('file_id', '=', id).where('position', '>=', from).execute();
      return true;
    });
    await turn();
  }
}

export interface ResponseRoom {
  readonly keepMs: number;
  readonly maxBytes: number;
}

/** Old conversations; where all together take too much, the oldest of the keys that keep most. */
export async function pruneResponses(
  database: Database,
  { keepMs, maxBytes }: ResponseRoom,
  nowMs: number,
  isClosed: IsClosed,
): Promise<void> {
  const repeat = async (choose: () => Promise<readonly string[]>) => {
    while (!isClosed()) {
      const ids = await choose();
      if (ids.length === 0) return;
      await database.change((tables) => forget(tables, ids));
      await turn();
    }
  };
  await repeat(() => oldConversations(database, nowMs - keepMs));
  if ((await totalBytes(database)) <= maxBytes) return;
  await repeat(() => surplusConversations(database, maxBytes * SHARE_LEFT));
}

async function oldConversations({ tables }: Database, beforeMs: number): Promise<string[]> {
  const rows = await tables
    .selectFrom('conversation')
    .select('id')
    .where('used_ms', '<', beforeMs)
    .orderBy('used_ms')
    .limit(CONVERSATIONS_AT_ONCE)
    .execute();
  return rows.map(({ id }) => id);
}

async function surplusConversations({ tables }: Database, goalBytes: number): Promise<string[]> {
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
    .limit(CONVERSATIONS_AT_ONCE)
    .execute();
  return oldest.flatMap(({ id, bytes }) => {
    if (surplus <= 0) return [];
    surplus -= bytes;
    return [id];
  });
}

async function totalBytes({ tables }: Database): Promise<number> {
  const row = await tables
    .selectFrom('conversation')
    .select((column) => column.fn.sum<number | null>('bytes').as('bytes'))
    .executeTakeFirst();
  return row?.bytes ?? 0;
}

/** The conversation goes first: a response being added to it then waits, and begins a new one. */
async function forget(tables: Tables, conversationIds: readonly string[]): Promise<void> {
  await tables.deleteFrom('conversation').where('id', 'in', conversationIds).execute();
  const responses = tables
    .selectFrom('response')
    .select('id')
    .where('conversation_id', 'in', conversationIds);
  await tables.deleteFrom('response_item').where('response_id', 'in', responses).execute();
  await tables.deleteFrom('response').where('conversation_id', 'in', conversationIds).execute();
}
