// Sums of usage, by day or by key.

import type { UsageRow } from '../../../src/store/usage-report.ts';

const DAY_MS = 86_400_000;

export interface UsageSum {
  readonly requests: number;
  readonly errors: number;
  readonly prompt: number;
  readonly cached: number;
  readonly answer: number;
}

export function sumOf(rows: readonly UsageRow[]): UsageSum {
  const total = (of: (row: UsageRow) => number) => rows.reduce((sum, row) => sum + of(row), 0);
  return {
    requests: total((row) => row.requests),
    errors: total((row) => row.errors),
    prompt: total((row) => row.promptTokens),
    cached: total((row) => row.cachedTokens),
    answer: total((row) => row.completionTokens),
  };
}

/** Days of UTC, as usage is counted; the newest last. */
export function lastDays(count: number, nowMs = Date.now()): string[] {
  return Array.from({ length: count }, (_, at) =>
    new Date(nowMs - (count - 1 - at) * DAY_MS).toISOString().slice(0, 10),
  );
}

export interface DaySum extends UsageSum {
  readonly day: string;
}

export function sumsByDay(rows: readonly UsageRow[], days: readonly string[]): DaySum[] {
  return days.map((day) => ({ day, ...sumOf(rows.filter((row) => row.day === day)) }));
}
