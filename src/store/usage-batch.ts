// Writes a batch of usage in one transaction. It counts once, however often it is written, and so does each of its
// requests that several gateways may report: the largest count of each is what is charged.

import type { Database, Tables } from './database.ts';
import type { KeyUsageTable } from './schema.ts';
import { DAY_MS, gathered, type UsageRow, utcDay } from './usage-report.ts';

/** Prompt tokens include cached ones. */
export interface RequestUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly failed: boolean;
}

/** A writer that has not heard of its last batch by then is gone. */
const KEEP_FLUSH_MS = 30 * DAY_MS;
/** How long a request may be reported again. */
const KEEP_CHARGED_MS = 2 * DAY_MS;

export interface UsageBatch {
  readonly id: string;
  readonly rows: readonly UsageRow[];
  /** By request id; each counts once. */
  readonly once: ReadonlyMap<string, UsageRow>;
}

/** `lastId`: the batch before, known to be written, whose mark is deleted. */
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
  const charged = once.size === 0 ? [] : await charge(tables, once, nowMs);
  // In one order on all gateways, which avoids deadlocks.
  const added = gathered([...rows, ...charged]);
  if (added.length > 0) await insertUsage(tables, added);
  await tables
    .deleteFrom('usage_flush')
    .where((where) => where.or([where('id', '=', lastId ?? ''), where('at_ms', '<', nowMs - KEEP_FLUSH_MS)]))
    .execute();
}

export async function isWritten({ tables }: Database, batchId: string): Promise<boolean> {
  const found = await tables.selectFrom('usage_flush').select('id').where('id', '=', batchId).execute();
  return found.length > 0;
}

/** Returns what was not charged before. */
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
  const inserted = await tables
    .insertInto('charged_request')
    .values(requestIds.map((id) => ({ request_id: id, at_ms: nowMs, ...countsOf(once.get(id) as UsageRow) })))
    .onConflict((conflict) => conflict.column('request_id').doNothing())
    .returning('request_id')
    .execute();
  const isNew = new Set(inserted.map(({ request_id }) => request_id));
  const charged: UsageRow[] = [];
  for (const id of requestIds) {
    const row = once.get(id) as UsageRow;
    charged.push(isNew.has(id) ? row : await raise(tables, id, row, nowMs));
  }
  return charged;
}

/** Charges what exceeds the largest count so far. */
async function raise(tables: Tables, requestId: string, row: UsageRow, nowMs: number): Promise<UsageRow> {
  // The first update waits for gateways that charge the request now, and then has what they counted.
  const before = await tables
    .updateTable('charged_request')
    .set({ at_ms: nowMs })
    .where('request_id', '=', requestId)
    .returning(['prompt_tokens', 'cached_tokens', 'completion_tokens'])
    .executeTakeFirstOrThrow();
  const rest = {
    promptTokens: Math.max(0, row.promptTokens - before.prompt_tokens),
    cachedTokens: Math.max(0, row.cachedTokens - before.cached_tokens),
    completionTokens: Math.max(0, row.completionTokens - before.completion_tokens),
  };
  await tables
    .updateTable('charged_request')
    .set({
      prompt_tokens: before.prompt_tokens + rest.promptTokens,
      cached_tokens: before.cached_tokens + rest.cachedTokens,
      completion_tokens: before.completion_tokens + rest.completionTokens,
    })
    .where('request_id', '=', requestId)
    .execute();
  return { ...row, requests: 0, errors: 0, ...rest };
}

function countsOf({ promptTokens, cachedTokens, completionTokens }: UsageRow) {
  return { prompt_tokens: promptTokens, cached_tokens: cachedTokens, completion_tokens: completionTokens };
}

/** Of two reports of one request. */
export function largerOf(first: UsageRow, other: UsageRow): UsageRow {
  return {
    ...first,
    promptTokens: Math.max(first.promptTokens, other.promptTokens),
    cachedTokens: Math.max(first.cachedTokens, other.cachedTokens),
    completionTokens: Math.max(first.completionTokens, other.completionTokens),
  };
}

export function usageRow(keyId: string, usage: RequestUsage, nowMs: number): UsageRow {
  const { promptTokens, cachedTokens, completionTokens, failed } = usage;
  const counts = { requests: 1, promptTokens, cachedTokens, completionTokens, errors: failed ? 1 : 0 };
  return { keyId, day: utcDay(nowMs), ...counts };
}

export async function insertUsage(tables: Tables, rows: readonly UsageRow[]): Promise<void> {
  await tables
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
