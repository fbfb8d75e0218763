// Rate limits as response headers, in the form OpenAI's clients know.

export type LimitHeaders = Readonly<Record<string, string>>;

interface LimitStatus {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of the limit is free again. */
  readonly resetMs: number;
}

export function standingHeaders(name: string, standing: LimitStatus): LimitHeaders {
  return {
    [`x-ratelimit-limit-${name}`]: String(standing.limit),
    [`x-ratelimit-remaining-${name}`]: String(standing.remaining),
    [`x-ratelimit-reset-${name}`]: formatDuration(standing.resetMs),
  };
}

/** The standard header has whole seconds only; clients that read the second one need not wait longer. */
export function retryHeaders(retryAfterMs: number): LimitHeaders {
  if (retryAfterMs === Number.POSITIVE_INFINITY) return {};
  return {
    'retry-after': String(Math.ceil(retryAfterMs / 1000)),
    'retry-after-ms': String(retryAfterMs),
  };
}

/** As in `250ms`, `1.5s`, `6m0s`, `23h59m1s`. */
export function formatDuration(durationMs: number): string {
  if (durationMs > 0 && durationMs < 1000) return `${durationMs}ms`;
  const hours = Math.floor(durationMs / 3_600_000);
  const minutes = Math.floor(durationMs / 60_000) % 60;
  const seconds = `${(durationMs % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
