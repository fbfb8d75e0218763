// Streams that have begun, and the tokens of their answers as they come, so that another process can go on with them. What it
// stores is sealed by its caller. Everything that came within a moment is written in one transaction: one statement for new
// streams, one for those that have ended, and one row for the tokens of all that run.

import { Buffer } from 'node:buffer';
import type { Database, Tables } from './database.ts';
import type { KeptRequestTable } from './schema.ts';

const ROWS_PER_STATEMENT = 500;

export interface Counts {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

/** `cut`: its client may want the rest. `whole`: its client was sent all of it. */
export type KeptState = 'running' | 'cut' | 'whole';

const numbers = { running: 0, cut: 1, whole: 2 } as const;
const states = ['running', 'cut', 'whole'] as const;

export interface NewRow {
  readonly name: string;
  readonly keyId: string;
  readonly body: Uint8Array;
  readonly counted: Counts | undefined;
  /** Where the answer had begun before. */
  readonly tokens: Uint8Array | undefined;
}

export interface KeptRow extends NewRow {
  readonly owner: string;
  readonly state: KeptState;
}

export interface EndedRow {
  readonly name: string;
  readonly state: Exclude<KeptState, 'running'>;
  readonly counted: Counts | undefined;
  /** Where the answer was cut short. */
  readonly tokens: Uint8Array | undefined;
}

export interface KeptChanges {
  readonly begun: readonly NewRow[];
  readonly ended: readonly EndedRow[];
  /** `replaces`: rows of its server up to this one say nothing more than this one. */
  readonly tokens:
    | { readonly position: number; readonly body: Uint8Array; readonly replaces: number | undefined }
    | undefined;
}

export class KeptRequestStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  nowMs(): Promise<number> {
    return this.#database.nowMs();
  }

  /** A busy database is not waited for longer than `patienceMs`. */
  async write(owner: string, { begun, ended, tokens }: KeptChanges, patienceMs: number): Promise<void> {
    await this.#database.change(async (tables) => {
      const nowMs = await this.#database.nowMs(tables);
      for (let at = 0; at < begun.length; at += ROWS_PER_STATEMENT) {
        await insertRows(tables, owner, begun.slice(at, at + ROWS_PER_STATEMENT), nowMs);
      }
      await endRows(tables, owner, ended, nowMs);
      if (tokens === undefined) return;
      const { position, body, replaces } = tokens;
      await tables.insertInto('kept_tokens').values({ owner, position, at_ms: nowMs, body }).execute();
      if (replaces === undefined) return;
      await tables
        .deleteFrom('kept_tokens')
        .where('owner', '=', owner)
        .where('position', '<=', replaces)
        .execute();
    }, patienceMs);
  }

  async find(name: string): Promise<KeptRow | undefined> {
    const row = await this.#database.tables
      .selectFrom('kept_request')
      .selectAll()
      .where('name', '=', name)
      .executeTakeFirst();
    return row && keptRow(row);
  }

  /** What a server has written of tokens, in order, by position. */
  async tokensOf(owner: string): Promise<ReadonlyMap<number, Uint8Array>> {
    const rows = await this.#database.tables
      .selectFrom('kept_tokens')
      .select(['position', 'body'])
      .where('owner', '=', owner)
      .orderBy('position')
      .execute();
    return new Map(rows.map(({ position, body }) => [Number(position), Buffer.from(body)]));
  }

  /** Servers that answer requests, or have left tokens, and when each last wrote anything. */
  async owners(): Promise<ReadonlyMap<string, number>> {
    const { tables } = this.#database;
    const [running, writing] = await Promise.all([
      tables
        .selectFrom('kept_request')
        .select((row) => ['owner', row.fn.max('at_ms').as('at_ms')])
        .where('ended', '=', numbers.running)
        .groupBy('owner')
        .execute(),
      tables
        .selectFrom('kept_tokens')
        .select((row) => ['owner', row.fn.max('at_ms').as('at_ms')])
        .groupBy('owner')
        .execute(),
    ]);
    const owners = new Map<string, number>();
    for (const { owner, at_ms } of [...running, ...writing]) {
      owners.set(owner, Math.max(owners.get(owner) ?? 0, Number(at_ms)));
    }
    return owners;
  }

  async runningOf(owner: string): Promise<readonly KeptRow[]> {
    const rows = await this.#database.tables
      .selectFrom('kept_request')
      .selectAll()
      .where('owner', '=', owner)
      .where('ended', '=', numbers.running)
      .execute();
    return rows.map(keptRow);
  }

  /** What a server that is gone has left is settled: nothing of it runs any more. */
  async settle(owner: string, ended: readonly EndedRow[]): Promise<void> {
    await this.#database.change(async (tables) => {
      await endRows(tables, owner, ended, await this.#database.nowMs(tables));
      await tables.deleteFrom('kept_tokens').where('owner', '=', owner).execute();
    });
  }

  /** Removes what nobody has asked for in so long, and returns how many bytes are left. */
  async prune(keepMs: Readonly<Record<Exclude<KeptState, 'running'>, number>>): Promise<number> {
    await this.#database.change(async (tables) => {
      const nowMs = await this.#database.nowMs(tables);
      for (const state of ['cut', 'whole'] as const) {
        await tables
          .deleteFrom('kept_request')
          .where('ended', '=', numbers[state])
          .where('at_ms', '<', nowMs - keepMs[state])
          .execute();
        // The clock was set back: they are as old as can be known.
        await tables
          .updateTable('kept_request')
          .set({ at_ms: nowMs })
          .where('ended', '=', numbers[state])
          .where('at_ms', '>', nowMs + keepMs[state])
          .execute();
      }
    });
    return this.bytes();
  }

  /** The oldest of those whose clients were sent everything make room. */
  async dropWhole(most: number): Promise<void> {
    await this.#database.change(async (tables) => {
      const oldest = tables
        .selectFrom('kept_request')
        .select('name')
        .where('ended', '=', numbers.whole)
        .orderBy('at_ms')
        .limit(most);
      await tables.deleteFrom('kept_request').where('name', 'in', oldest).execute();
    });
  }

  async bytes(): Promise<number> {
    const row = await this.#database.tables
      .selectFrom('kept_request')
      .select((column) => column.fn.sum<number | null>('bytes').as('bytes'))
      .executeTakeFirst();
    return Number(row?.bytes ?? 0);
  }
}

async function insertRows(
  tables: Tables,
  owner: string,
  rows: readonly NewRow[],
  nowMs: number,
): Promise<void> {
  await tables
    .insertInto('kept_request')
    .values(
      rows.map(({ name, keyId, body, counted, tokens }) => ({
        name,
        key_id: keyId,
        owner,
        ended: numbers.running,
        at_ms: nowMs,
        bytes: body.length,
        ...countColumns(counted),
        body,
        tokens: tokens ?? null,
      })),
    )
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet((column) => ({
        owner: column.ref('excluded.owner'),
        ended: column.ref('excluded.ended'),
        at_ms: column.ref('excluded.at_ms'),
        bytes: column.ref('excluded.bytes'),
        prompt_tokens: column.ref('excluded.prompt_tokens'),
        cached_tokens: column.ref('excluded.cached_tokens'),
        completion_tokens: column.ref('excluded.completion_tokens'),
        body: column.ref('excluded.body'),
        tokens: column.ref('excluded.tokens'),
      })),
    )
    .execute();
}

/** Of this server alone: another one may have the request by now. */
async function endRows(
  tables: Tables,
  owner: string,
  ended: readonly EndedRow[],
  nowMs: number,
): Promise<void> {
  for (const { name, state, counted, tokens } of ended) {
    await tables
      .updateTable('kept_request')
      .set({
        ended: numbers[state],
        at_ms: nowMs,
        ...(counted === undefined ? {} : countColumns(counted)),
        ...(tokens === undefined ? {} : { tokens }),
      })
      .where('name', '=', name)
      .where('owner', '=', owner)
      .execute();
  }
}

function countColumns(counted: Counts | undefined) {
  return {
    prompt_tokens: counted?.promptTokens ?? null,
    cached_tokens: counted?.cachedTokens ?? null,
    completion_tokens: counted?.completionTokens ?? null,
  };
}

function keptRow(row: KeptRequestTable): KeptRow {
  const { prompt_tokens: prompt, cached_tokens: cached, completion_tokens: completion } = row;
  return {
    name: row.name,
    keyId: row.key_id,
    owner: row.owner,
    state: states[row.ended] ?? 'cut',
    // SQLite gives another kind of buffer than Postgres.
    body: Buffer.from(row.body),
    tokens: row.tokens === null ? undefined : Buffer.from(row.tokens),
    counted:
      prompt === null || cached === null || completion === null
        ? undefined
        : { promptTokens: prompt, cachedTokens: cached, completionTokens: completion },
  };
}
