// Usage per key and UTC day.

import type { Database } from './database.ts';
import type { KeyUsageTable } from './schema.ts';

export interface UsageCounts {
  readonly requests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly errors: number;
}

export interface UsageRow extends UsageCounts {
  readonly keyId: string;
  readonly day: string;
}

export interface UsageQuery {
  readonly keyIds?: readonly string[];
  /** Inclusive, as in `2026-01-31`. */
  readonly fromDay?: string;
  readonly toDay?: string;
}

export async function reportUsage(database: Database, query: UsageQuery): Promise<UsageRow[]> {
  if (query.keyIds?.length === 0) return [];
  let select = database.tables.selectFrom('key_usage').selectAll();
  if (query.keyIds !== undefined) select = select.where('key_id', 'in', query.keyIds);
  if (query.fromDay !== undefined) select = select.where('day', '>=', query.fromDay);
  if (query.toDay !== undefined) select = select.where('day', '<=', query.toDay);
  return (await select.orderBy('day').orderBy('key_id').execute()).map(rowFromTable);
}

/** Adds unwritten usage to a report. */
export function mergeUsage(
  report: readonly UsageRow[],
  unwritten: readonly UsageRow[],
  { keyIds, fromDay, toDay }: UsageQuery,
): UsageRow[] {
  const asked = unwritten.filter(
    ({ keyId, day }) =>
      (keyIds?.includes(keyId) ?? true) &&
      (fromDay === undefined || day >= fromDay) &&
      (toDay === undefined || day <= toDay),
  );
  return gathered([...report, ...asked]);
}

export function gathered(rows: readonly UsageRow[]): UsageRow[] {
  const sums = new Map<string, UsageRow>();
  for (const row of rows) addRow(sums, row);
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

export function addRow(rows: Map<string, UsageRow>, row: UsageRow): void {
  const slot = `${row.day} ${row.keyId}`;
  const before = rows.get(slot);
  rows.set(slot, before === undefined ? row : { ...row, ...sumUsage([before, row]) });
}

export function sumUsage(rows: readonly UsageCounts[]): UsageCounts {
  const total = (count: (row: UsageCounts) => number) => rows.reduce((sum, row) => sum + count(row), 0);
  return {
    requests: total((row) => row.requests),
    promptTokens: total((row) => row.promptTokens),
    cachedTokens: total((row) => row.cachedTokens),
    completionTokens: total((row) => row.completionTokens),
    errors: total((row) => row.errors),
  };
}

function rowFromTable(row: KeyUsageTable): UsageRow {
  return {
    keyId: row.key_id,
    day: row.day,
    requests: row.requests,
    promptTokens: row.prompt_tokens,
    cachedTokens: row.cached_tokens,
    completionTokens: row.completion_tokens,
    errors: row.errors,
  };
}

export const DAY_MS = 86_400_000;

export function utcDay(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}
