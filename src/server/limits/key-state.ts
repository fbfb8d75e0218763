// The state of a key's limits, and what follows for its next request: whether it must wait, how long, and which headers
// it is answered with, in the form that OpenAI's clients know.

import type { KeyLimits } from '../../store/key-record.ts';
import type { DailyBudget } from './daily-budget.ts';
import type { LimitHeaders, LimitRefusal, RemainingLimit, TokenDemand, Weighed } from './key-limiter.ts';
import type { MinuteBucket } from './minute-bucket.ts';
import type { RunningRequests } from './running-requests.ts';

export interface KeyState {
  readonly requests: MinuteBucket;
  readonly tokens: MinuteBucket;
  readonly daily: DailyBudget;
  readonly running: Pick<RunningRequests, 'count' | 'expectedWaitMs'>;
}

type Wait = Omit<LimitRefusal, 'headers'>;

export function refusalOf(
  state: KeyState,
  limits: KeyLimits,
  demand: TokenDemand,
  nowMs: number,
): LimitRefusal | undefined {
  const wait = longestWait(state, limits, demand, nowMs);
  if (wait === undefined) return undefined;
  return { ...wait, headers: { ...limitHeaders(state, limits, nowMs), ...retryHeaders(wait.retryAfterMs) } };
}

/** The longest wait of all limits that refuse: after it the others admit the request, too. */
function longestWait(
  state: KeyState,
  limits: KeyLimits,
  demand: TokenDemand,
  nowMs: number,
): Wait | undefined {
  const { requests, running } = state;
  const { requestsPerMinute, maxConcurrent } = limits;
  const waits = tokenWaits(state, limits, demand, nowMs);
  if (requestsPerMinute !== undefined) {
    waits.push({ kind: 'requests', retryAfterMs: requests.waitMs(1, requestsPerMinute, nowMs) });
  }
  if (maxConcurrent !== undefined && running.count >= maxConcurrent) {
    waits.push({ kind: 'concurrent', retryAfterMs: running.expectedWaitMs(nowMs) });
  }
  return waits
    .filter(({ retryAfterMs }) => retryAfterMs > 0)
    .sort((a, b) => b.retryAfterMs - a.retryAfterMs)
    .at(0);
}

/** How many of the expected tokens are held: never more than the day has left, or a whole minute has. */
export function heldTokens(
  { daily }: KeyState,
  { tokensPerMinute, dailyTokens }: KeyLimits,
  { expected }: TokenDemand,
  nowMs: number,
): number {
  const left = dailyTokens === undefined ? expected : dailyTokens - daily.used(dailyTokens, nowMs);
  return Math.max(0, Math.min(expected, tokensPerMinute ?? expected, left));
}

export function tokenWaits(state: KeyState, limits: KeyLimits, demand: TokenDemand, nowMs: number): Wait[] {
  const { tokens: bucket, daily, running } = state;
  const { tokensPerMinute, dailyTokens } = limits;
  const { least } = demand;
  // A request that uses no tokens need not wait for any.
  if (demand.expected === 0) return [];
  // Where the day has too little left, only the least is demanded.
  const asked = Math.max(least, heldTokens(state, limits, demand, nowMs));
  const waits: Wait[] = [];
  if (tokensPerMinute !== undefined) {
    const fits = least <= tokensPerMinute;
    const left = bucket.remaining(tokensPerMinute, nowMs);
    waits.push({
      kind: 'tokens',
      retryAfterMs: fits ? bucket.waitMs(asked, tokensPerMinute, nowMs) : Number.POSITIVE_INFINITY,
      numbers: { limit: tokensPerMinute, used: tokensPerMinute - left, left, asked },
    });
  }
  if (dailyTokens !== undefined) {
    const used = daily.used(dailyTokens, nowMs);
    const left = daily.remaining(dailyTokens, nowMs);
    waits.push({
      kind: 'daily',
      retryAfterMs: daily.waitMs(least, asked, dailyTokens, nowMs) ?? running.expectedWaitMs(nowMs),
      numbers: { limit: dailyTokens, used, left, asked },
    });
  }
  return waits;
}

export function weighed(state: KeyState, limits: KeyLimits, heldTokens: number, nowMs: number): Weighed {
  const { dailyTokens } = limits;
  const left =
    dailyTokens === undefined ? Number.POSITIVE_INFINITY : state.daily.remaining(dailyTokens, nowMs);
  return { ok: true, headers: limitHeaders(state, limits, nowMs), heldTokens, mostTokens: heldTokens + left };
}

export function remainingLimits(
  { requests, tokens, daily, running }: KeyState,
  { requestsPerMinute, tokensPerMinute, dailyTokens, maxConcurrent }: KeyLimits,
  nowMs: number,
): RemainingLimit[] {
  const found: RemainingLimit[] = [];
  for (const [kind, bucket, limit] of [
    ['requests', requests, requestsPerMinute],
    ['tokens', tokens, tokensPerMinute],
  ] as const) {
    if (limit === undefined) continue;
    const remaining = bucket.remaining(limit, nowMs);
    found.push({ kind, limit, remaining, resetMs: bucket.resetMs(limit, nowMs) });
  }
  if (dailyTokens !== undefined) {
    const remaining = daily.remaining(dailyTokens, nowMs);
    found.push({ kind: 'daily', limit: dailyTokens, remaining, resetMs: daily.resetMs(nowMs) });
  }
  if (maxConcurrent !== undefined) {
    const remaining = Math.max(0, maxConcurrent - running.count);
    found.push({ kind: 'concurrent', limit: maxConcurrent, remaining });
  }
  return found;
}

/** Clients know no header for concurrent requests. */
const headerNames = { requests: 'requests', tokens: 'tokens', daily: 'daily-tokens' } as const;

export function limitHeaders(state: KeyState, limits: KeyLimits, nowMs: number): LimitHeaders {
  const headers: Record<string, string> = {};
  for (const { kind, limit, remaining, resetMs } of remainingLimits(state, limits, nowMs)) {
    if (kind === 'concurrent' || resetMs === undefined) continue;
    const name = headerNames[kind];
    headers[`x-ratelimit-limit-${name}`] = String(limit);
    headers[`x-ratelimit-remaining-${name}`] = String(remaining);
    headers[`x-ratelimit-reset-${name}`] = formatDuration(resetMs);
  }
  return headers;
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
