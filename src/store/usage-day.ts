// Usage is counted by days of UTC, named as in `2026-01-31`.

export const DAY_MS = 86_400_000;

export function utcDay(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}
