// A batch of usage on its way into the database, in one transaction: it counts once, however often it is written, and
// so does each of its requests that others may tell of.

import { addUsage } from './add-usage.ts';
import type { Database, Tables } from './database.ts';
import { DAY_MS } from './usage-day.ts';
import { gathered, type UsageRow } from './usage-report.ts';

/** Somebody may not have heard of its last batch for as long; whoever has not by then is gone. */
const KEEP_FLUSH_MS = 30 * DAY_MS;
/** How long a request may be told of again. */
const KEEP_CHARGED_MS = 2 * DAY_MS;

export interface UsageBatch {
  readonly id: string;
  /** One for each key and day. */
  readonly rows: readonly UsageRow[];
  /** Of requests that count once, by request. */
  readonly once: ReadonlyMap<string, UsageRow>;
}

/** `lastId`: the batch before it, which was heard to be written and need not be remembered. */
export async function writeBatch(
  tables: Tables,
  { id, rows, once }: UsageBatch,
  lastId: string | undefined,
  nowMs: number,
): Promise<void> {
  const marked = await tables
    .insertInto('usage_flush')
    .values({ id, at_ms: nowMs })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .executeTakeFirst();
  if (marked.numInsertedOrUpdatedRows === 0n) return;
  const newOnes = once.size === 0 ? [] : await charge(tables, once, nowMs);
  // In one order for all gateways, so that no two wait for each other.
  const added = gathered([...rows, ...newOnes]);
  if (added.length > 0) await addUsage(tables, added);
  await tables
    .deleteFrom('usage_flush')
    .where((where) => where.or([where('id', '=', lastId ?? ''), where('at_ms', '<', nowMs - KEEP_FLUSH_MS)]))
    .execute();
}

export async function isWritten({ tables }: Database, batchId: string): Promise<boolean> {
  const found = await tables.selectFrom('usage_flush').select('id').where('id', '=', batchId).execute();
  return found.length > 0;
}

/** The rows of those that were not told of before. */
async function charge(
  tables: Tables,
  once: ReadonlyMap<string, UsageRow>,
  nowMs: number,
): Promise<UsageRow[]> {
  await tables
    .deleteFrom('charged_request')
    .where('at_ms', '<', nowMs - KEEP_CHARGED_MS)
    .execute();
  const requestIds = [...once.keys()].sort();
  const charged = await tables
    .insertInto('charged_request')
    .values(requestIds.map((request_id) => ({ request_id, at_ms: nowMs })))
    .onConflict((conflict) => conflict.column('request_id').doNothing())
    .returning('request_id')
    .execute();
  return charged.flatMap(({ request_id }) => once.get(request_id) ?? []);
}
