// Where a key stands with each of its limits, and what that means for its next request: whether it must wait, for how
// long, and what its client is told.

import type { KeyLimits } from '../../store/key-record.ts';
import type { DailyBudget } from './daily-budget.ts';
import { type LimitHeaders, retryHeaders, standingHeaders } from './headers.ts';
import type { LimitRefusal } from './key-limiter.ts';
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
  tokens: number,
  nowMs: number,
): LimitRefusal | undefined {
  const wait = longestWait(state, limits, tokens, nowMs);
  if (wait === undefined) return undefined;
  return { ...wait, headers: { ...standings(state, limits, nowMs), ...retryHeaders(wait.retryAfterMs) } };
}

/** Of all limits in the way the one that stays longest: the others are then free too. */
function longestWait(state: KeyState, limits: KeyLimits, tokens: number, nowMs: number): Wait | undefined {
  const { requests, running } = state;
  const { requestsPerMinute, maxConcurrent } = limits;
  const waits = tokenWaits(state, limits, tokens, nowMs);
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

export function tokenWaits(
  { tokens: bucket, daily, running }: KeyState,
  { tokensPerMinute, dailyTokens }: KeyLimits,
  tokens: number,
  nowMs: number,
): Wait[] {
  const waits: Wait[] = [];
  if (tokensPerMinute !== undefined) {
    waits.push({ kind: 'tokens', retryAfterMs: bucket.waitMs(tokens, tokensPerMinute, nowMs) });
  }
  if (dailyTokens !== undefined) {
    const retryAfterMs = daily.waitMs(tokens, dailyTokens, nowMs) ?? running.expectedWaitMs(nowMs);
    waits.push({ kind: 'daily', retryAfterMs });
  }
  return waits;
}

export function standings(
  { requests, tokens, daily }: KeyState,
  { requestsPerMinute, tokensPerMinute, dailyTokens }: KeyLimits,
  nowMs: number,
): LimitHeaders {
  const headers: Record<string, string> = {};
  for (const [name, bucket, limit] of [
    ['requests', requests, requestsPerMinute],
    ['tokens', tokens, tokensPerMinute],
  ] as const) {
    if (limit === undefined) continue;
    const remaining = bucket.remaining(limit, nowMs);
    Object.assign(
      headers,
      standingHeaders(name, { limit, remaining, resetMs: bucket.resetMs(limit, nowMs) }),
    );
  }
  if (dailyTokens !== undefined) {
    const remaining = daily.remaining(dailyTokens, nowMs);
    const resetMs = daily.resetMs(nowMs);
    Object.assign(headers, standingHeaders('daily-tokens', { limit: dailyTokens, remaining, resetMs }));
  }
  return headers;
}
