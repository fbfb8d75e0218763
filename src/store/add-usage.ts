// Adds usage to what is written already. Part of whoever's change it is.

import type { Tables } from './database.ts';
import type { KeyUsageTable } from './schema.ts';
import { utcDay } from './usage-day.ts';
import type { UsageRow } from './usage-report.ts';
import type { RequestUsage } from './usage-store.ts';

/** Of one request that ended at that time. */
export function usageRow(keyId: string, usage: RequestUsage, nowMs: number): UsageRow {
  const { promptTokens, cachedTokens, completionTokens, failed } = usage;
  const counts = { requests: 1, promptTokens, cachedTokens, completionTokens, errors: failed ? 1 : 0 };
  return { keyId, day: utcDay(nowMs), ...counts };
}

export async function addUsage(tables: Tables, rows: readonly UsageRow[]): Promise<void> {
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
