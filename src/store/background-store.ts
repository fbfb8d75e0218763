// Responses that no client waits for, from the moment they are accepted until they have ended: leased to the server that
// answers them, so that another one goes on with what a dead server leaves.

import type { Lease } from './batch-record.ts';
import type { Database } from './database.ts';

export interface BackgroundResponse {
  readonly id: string;
  readonly keyId: string;
  readonly createdMs: number;
  /** What was asked, as JSON. */
  readonly body: string;
  /** Whether its events may be streamed. */
  readonly streamed: boolean;
  /** The response while nobody knows more of it. */
  readonly shown: Readonly<Record<string, unknown>>;
  readonly cancelled: boolean;
}

export class BackgroundStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** By the clock that leases are measured with. */
  nowMs(): Promise<number> {
    return this.#database.nowMs();
  }

  async add(response: Omit<BackgroundResponse, 'cancelled'>, { owner, untilMs }: Lease): Promise<void> {
    const { id, keyId, createdMs, body, streamed, shown } = response;
    await this.#database.change((tables) =>
      tables
        .insertInto('background_response')
        .values({
          id,
          key_id: keyId,
          created_ms: createdMs,
          body,
          streamed: streamed ? 1 : 0,
          shown: JSON.stringify(shown),
          cancelled: 0,
          owner,
          until_ms: untilMs,
        })
        .execute(),
    );
  }

  async find(keyId: string, id: string): Promise<BackgroundResponse | undefined> {
    const row = await this.#database.tables
      .selectFrom('background_response')
      .selectAll()
      .where('id', '=', id)
      .where('key_id', '=', keyId)
      .executeTakeFirst();
    return row && responseOf(row);
  }

  /** Leases the oldest that nobody answers. */
  async take(count: number, { owner, nowMs, untilMs }: Lease): Promise<readonly BackgroundResponse[]> {
    const { tables } = this.#database;
    const free = await tables
      .selectFrom('background_response')
      .select('id')
      .where('until_ms', '<=', nowMs)
      .orderBy('created_ms')
      .limit(count)
      .execute();
    if (free.length === 0) return [];
    const rows = await this.#database.change((changed) =>
      changed
        .updateTable('background_response')
        .set({ owner, until_ms: untilMs })
        .where(
          'id',
          'in',
          free.map(({ id }) => id),
        )
        // Another server may have taken it meanwhile.
        .where('until_ms', '<=', nowMs)
        .returningAll()
        .execute(),
    );
    return rows.map(responseOf);
  }

  async renew(ids: readonly string[], { owner, untilMs }: Lease): Promise<void> {
    if (ids.length === 0) return;
    await this.#database.change((tables) =>
      tables
        .updateTable('background_response')
        .set({ until_ms: untilMs })
        .where('id', 'in', ids)
        .where('owner', '=', owner)
        .execute(),
    );
  }

  /** Leaves it to whoever takes it next. */
  async giveBack(id: string, owner: string): Promise<void> {
    await this.#database.change((tables) =>
      tables
        .updateTable('background_response')
        .set({ owner: null, until_ms: 0 })
        .where('id', '=', id)
        .where('owner', '=', owner)
        .execute(),
    );
  }

  async owners(): Promise<string[]> {
    const rows = await this.#database.tables
      .selectFrom('background_response')
      .select('owner')
      .distinct()
      .where('owner', 'is not', null)
      .execute();
    return rows.map(({ owner }) => owner as string);
  }

  async giveBackAll(owner: string): Promise<void> {
    await this.#database.change((tables) =>
      tables
        .updateTable('background_response')
        .set({ owner: null, until_ms: 0 })
        .where('owner', '=', owner)
        .execute(),
    );
  }

  /** Whoever answers it ends it soon. False where there is none. */
  async cancel(keyId: string, id: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#database.change((tables) =>
      tables
        .updateTable('background_response')
        .set({ cancelled: 1 })
        .where('id', '=', id)
        .where('key_id', '=', keyId)
        .executeTakeFirstOrThrow(),
    );
    return numUpdatedRows > 0n;
  }

  async cancelledOf(owner: string): Promise<string[]> {
    const rows = await this.#database.tables
      .selectFrom('background_response')
      .select('id')
      .where('owner', '=', owner)
      .where('cancelled', '=', 1)
      .execute();
    return rows.map(({ id }) => id);
  }

  async remove(id: string): Promise<void> {
    await this.#database.change((tables) =>
      tables.deleteFrom('background_response').where('id', '=', id).execute(),
    );
  }
}

function responseOf(row: {
  readonly id: string;
  readonly key_id: string;
  readonly created_ms: number;
  readonly body: string;
  readonly streamed: number;
  readonly shown: string;
  readonly cancelled: number;
}): BackgroundResponse {
  return {
    id: row.id,
    keyId: row.key_id,
    createdMs: Number(row.created_ms),
    body: row.body,
    streamed: Number(row.streamed) === 1,
    shown: JSON.parse(row.shown) as Record<string, unknown>,
    cancelled: Number(row.cancelled) === 1,
  };
}
