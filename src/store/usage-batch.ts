// Writes a batch of usage in one transaction. It counts once, however often it is written, and so does each of its
// requests that several gateways may report.

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
  const newOnes = once.size === 0 ? [] : await charge(tables, once, nowMs);
  // In one order on all gateways, which avoids deadlocks.
  const added = gathered([...rows, ...newOnes]);
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

/** Returns the rows of requests that were not charged before. */
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
