// Stored responses: input, output and the response they continue. They belong to a key. A conversation's responses
// are kept and removed together.

import type { Database, Tables } from './database.ts';
import { Pruner, pruneResponses, type ResponseRoom } from './pruner.ts';
import type { ResponseItemTable } from './schema.ts';

// SQLite takes 32,766 parameters a statement; a row has five.
const ROWS_PER_STATEMENT = 1000;
const PRUNE_EVERY_MS = 3_600_000;
/** This share of the limit may be written before the pruner runs again. */
const SHARE_BETWEEN_RUNS = 1 / 32;

export interface StoredItem {
  readonly id: string;
}

export interface NewResponse<Item extends StoredItem> {
  readonly id: string;
  readonly previousId: string | undefined;
  /** Without the items. */
  readonly body: object;
  readonly input: readonly Item[];
  readonly output: readonly Item[];
}

interface StoredResponse<Item extends StoredItem> {
  readonly body: Readonly<Record<string, unknown>>;
  readonly output: readonly Item[];
}

type History<Item extends StoredItem> =
  | { readonly ok: true; readonly items: readonly Item[] }
  | { readonly ok: false; readonly problem: 'missing'; readonly id: string }
  | { readonly ok: false; readonly problem: 'too-large'; readonly bytes: number };

type FoundItems<Item extends StoredItem> =
  | { readonly ok: true; readonly items: ReadonlyMap<string, Item> }
  | { readonly ok: false; readonly problem: 'too-large'; readonly bytes: number };

interface Link {
  readonly id: string;
  readonly previous_id: string | null;
  readonly conversation_id: string;
  readonly bytes: number;
}

export class ResponseStore<Item extends StoredItem = StoredItem> {
  readonly #database: Database;
  readonly #room: ResponseRoom;
  readonly #pruner: Pruner;
  /** Bytes since the last run of the pruner. */
  #written = 0;

  constructor(database: Database, room: ResponseRoom, onProblem: (error: unknown) => void) {
    this.#database = database;
    this.#room = room;
    const prune = (nowMs: number, isClosed: () => boolean) => {
      this.#written = 0;
      return pruneResponses(database, room, nowMs, isClosed);
    };
    this.#pruner = new Pruner(PRUNE_EVERY_MS, prune, () => this.nowMs(), onProblem);
  }

  nowMs(): Promise<number> {
    return this.#database.nowMs();
  }

  /** Begins a conversation of its own where the previous response is gone. */
  async save(keyId: string, response: NewResponse<Item>, nowMs: number): Promise<void> {
    const { id, previousId } = response;
    const body = JSON.stringify(response.body);
    const items = rowsOf(response);
    const bytes = [body, ...items.map((item) => item.body)].reduce(
      (sum, text) => sum + Buffer.byteLength(text),
      0,
    );
    await this.#database.change(async (tables) => {
      const previous = previousId === undefined ? undefined : await linkOf(tables, keyId, previousId);
      const conversationId = previous?.conversation_id ?? id;
      await tables
        .insertInto('conversation')
        .values({ id: conversationId, key_id: keyId, used_ms: nowMs, bytes })
        .onConflict((conflict) =>
          conflict.column('id').doUpdateSet((column) => ({
            used_ms: column.ref('excluded.used_ms'),
            bytes: column('conversation.bytes', '+', column.ref('excluded.bytes')),
          })),
        )
        .execute();
      await tables
        .insertInto('response')
        .values({
          id,
          conversation_id: conversationId,
          previous_id: previousId ?? null,
          created_ms: nowMs,
          bytes,
          body,
        })
        .execute();
      for (let at = 0; at < items.length; at += ROWS_PER_STATEMENT) {
        const rows = items.slice(at, at + ROWS_PER_STATEMENT);
        await tables.insertInto('response_item').values(rows).execute();
      }
    });
    this.#written += bytes;
    const isMuch = this.#written > this.#room.maxBytes * SHARE_BETWEEN_RUNS;
    if (isMuch && !this.#pruner.isRunning) this.#pruner.start();
  }

  async find(keyId: string, id: string): Promise<StoredResponse<Item> | undefined> {
    if ((await linkOf(this.#database.tables, keyId, id)) === undefined) return undefined;
    const row = await this.#database.tables
      .selectFrom('response')
      .select('body')
      .where('id', '=', id)
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const items = await this.#items(id);
    const output = items.filter(({ produced }) => produced === 1).map(itemOf<Item>);
    return { body: JSON.parse(row.body) as Record<string, unknown>, output };
  }

  /** Responses that continue it stay, but cannot be continued any more. */
  async remove(keyId: string, id: string): Promise<boolean> {
    return this.#database.change(async (tables) => {
      const link = await linkOf(tables, keyId, id);
      if (link === undefined) return false;
      const removed = await tables.deleteFrom('response').where('id', '=', id).executeTakeFirst();
      // Another caller removed it.
      if (removed.numDeletedRows === 0n) return false;
      await tables.deleteFrom('response_item').where('response_id', '=', id).execute();
      await tables
        .updateTable('conversation')
        .set((column) => ({ bytes: column('bytes', '-', link.bytes) }))
        .where('id', '=', link.conversation_id)
        .execute();
      await tables
        .deleteFrom('conversation')
        .where('id', '=', link.conversation_id)
        .where((where) =>
          where.not(
            where.exists(
              where.selectFrom('response').select('id').where('conversation_id', '=', link.conversation_id),
            ),
          ),
        )
        .execute();
      return true;
    });
  }

  /** All input and output up to this response, in order. */
  async history(keyId: string, id: string, maxBytes: number): Promise<History<Item>> {
    const chain = await this.#chain(keyId, id);
    if (!chain.ok) return chain;
    const bytes = chain.links.reduce((sum, link) => sum + link.bytes, 0);
    if (bytes > maxBytes) return { ok: false, problem: 'too-large', bytes };
    const items: Item[] = [];
    for (const link of chain.links) items.push(...(await this.#items(link.id)).map(itemOf<Item>));
    return { ok: true, items };
  }

  async input(keyId: string, id: string): Promise<Item[]> {
    if ((await linkOf(this.#database.tables, keyId, id)) === undefined) return [];
    return (await this.#items(id)).filter(({ produced }) => produced === 0).map(itemOf<Item>);
  }

  /** Where several items share an id, the latest. */
  async items(keyId: string, itemIds: readonly string[], maxBytes: number): Promise<FoundItems<Item>> {
    const items = new Map<string, Item>();
    let bytes = 0;
    for (let at = 0; at < itemIds.length; at += ROWS_PER_STATEMENT) {
      const rows = await this.#itemRows(keyId, itemIds.slice(at, at + ROWS_PER_STATEMENT));
      const positions = new Map(rows.map((row) => [row.id, row]));
      bytes += [...positions.values()].reduce((sum, row) => sum + row.bytes, 0);
      if (bytes > maxBytes) return { ok: false, problem: 'too-large', bytes };
      for (const [id, { response_id, position }] of positions) {
        const row = await this.#database.tables
          .selectFrom('response_item')
          .select('body')
          .where('response_id', '=', response_id)
          .where('position', '=', position)
          .executeTakeFirst();
        if (row !== undefined) items.set(id, itemOf<Item>(row));
      }
    }
    return { ok: true, items };
  }

  prune(nowMs: number): Promise<void> {
    return this.#pruner.prune(nowMs);
  }

  close(): Promise<void> {
    return this.#pruner.close();
  }

  async #chain(
    keyId: string,
    id: string,
  ): Promise<{ readonly ok: true; readonly links: readonly Link[] } | (History<Item> & { ok: false })> {
    const last = await linkOf(this.#database.tables, keyId, id);
    if (last === undefined) return { ok: false, problem: 'missing', id };
    const all = await this.#database.tables
      .selectFrom('response')
      .select(['id', 'previous_id', 'conversation_id', 'bytes'])
      .where('conversation_id', '=', last.conversation_id)
      .execute();
    const byId = new Map(all.map((link) => [link.id, link]));
    const links: Link[] = [last];
    for (let next = last.previous_id; next !== null; ) {
      const link = byId.get(next);
      if (link === undefined) return { ok: false, problem: 'missing', id: next };
      links.push(link);
      next = link.previous_id;
    }
    return { ok: true, links: links.reverse() };
  }

  #itemRows(keyId: string, itemIds: readonly string[]) {
    return this.#database.tables
      .selectFrom('response_item')
      .innerJoin('response', 'response.id', 'response_item.response_id')
      .innerJoin('conversation', 'conversation.id', 'response.conversation_id')
      .select(['response_item.id', 'response_item.response_id', 'response_item.position'])
      .select(({ fn, cast }) => cast<number>(fn('length', ['response_item.body']), 'integer').as('bytes'))
      .where('response_item.id', 'in', itemIds)
      .where('conversation.key_id', '=', keyId)
      .orderBy('response.created_ms')
      .execute();
  }

  #items(responseId: string): Promise<Pick<ResponseItemTable, 'body' | 'produced'>[]> {
    return this.#database.tables
      .selectFrom('response_item')
      .select(['body', 'produced'])
      .where('response_id', '=', responseId)
      .orderBy('position')
      .execute();
  }
}

async function linkOf(
  tables: Pick<Tables, 'selectFrom'>,
  keyId: string,
  id: string,
): Promise<Link | undefined> {
  return tables
    .selectFrom('response')
    .innerJoin('conversation', 'conversation.id', 'response.conversation_id')
    .select(['response.id', 'response.previous_id', 'response.conversation_id', 'response.bytes'])
    .where('response.id', '=', id)
    .where('conversation.key_id', '=', keyId)
    .executeTakeFirst();
}

function rowsOf<Item extends StoredItem>({ id, input, output }: NewResponse<Item>): ResponseItemTable[] {
  return [...input, ...output].map((item, position) => ({
    response_id: id,
    position,
    id: item.id,
    produced: position < input.length ? 0 : 1,
    body: JSON.stringify(item),
  }));
}

function itemOf<Item extends StoredItem>({ body }: Pick<ResponseItemTable, 'body'>): Item {
  return JSON.parse(body) as Item;
}
