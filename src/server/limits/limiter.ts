// Admits requests within the limits of their key. Knows no clock: every call says what time it is.
// State is kept by key id; limits come with every call, so reloaded ones hold from the next request on.

import type { KeyLimits } from '../../store/key-record.ts';
import { DailyBudget } from './daily-budget.ts';
import { type LimitHeaders, retryHeaders, standingHeaders } from './headers.ts';
import { MinuteBucket } from './minute-bucket.ts';
import { RunningRequests } from './running-requests.ts';

export type LimitKind = 'requests' | 'tokens' | 'concurrent' | 'daily';

/** A request's place. Settled once, however the request ends. */
export interface Permit {
  /** Gives the place back, and of the estimated tokens those that were not used. Later calls do nothing. */
  settle(usedTokens: number, nowMs: number): void;
}

export type Admission =
  | { readonly ok: true; readonly permit: Permit; readonly headers: LimitHeaders }
  | {
      readonly ok: false;
      readonly kind: LimitKind;
      /**
       * After that time the request is admitted if nothing else happens. Where only running requests are in the
       * way, when the first should end.
       */
      readonly retryAfterMs: number;
      /** With `retry-after`. */
      readonly headers: LimitHeaders;
    };

interface KeyState {
  readonly requests: MinuteBucket;
  readonly tokens: MinuteBucket;
  readonly daily: DailyBudget;
  readonly running: RunningRequests;
}

interface Refusal {
  readonly kind: LimitKind;
  readonly retryAfterMs: number;
}

export class Limiter {
  readonly #states = new Map<string, KeyState>();

  /** What each key has used on the UTC day of that time, from before this process. */
  restoreDailyTokens(tokensByKey: ReadonlyMap<string, number>, nowMs: number): void {
    for (const [keyId, tokens] of tokensByKey) this.#state(keyId).daily.restore(tokens, nowMs);
  }

  /**
   * `estimatedTokens` count until the request is settled: its prompt, and the completion it asks for where it says
   * how long. A request above a whole limit is admitted once nothing of that limit is used.
   */
  admit(keyId: string, limits: KeyLimits, estimatedTokens: number, timeMs: number): Admission {
    const nowMs = Math.floor(timeMs);
    const state = this.#state(keyId);
    const refusal = longestWait(state, limits, estimatedTokens, nowMs);
    if (refusal !== undefined) {
      const headers = { ...standings(state, limits, nowMs), ...retryHeaders(refusal.retryAfterMs) };
      return { ok: false, ...refusal, headers };
    }
    const permit = grant(state, limits, estimatedTokens, nowMs);
    return { ok: true, permit, headers: standings(state, limits, nowMs) };
  }

  /** Where the key stands; a header for each limit it has. */
  headers(keyId: string, limits: KeyLimits, timeMs: number): LimitHeaders {
    return standings(this.#state(keyId), limits, Math.floor(timeMs));
  }

  #state(keyId: string): KeyState {
    const known = this.#states.get(keyId);
    if (known !== undefined) return known;
    const state = {
      requests: new MinuteBucket(),
      tokens: new MinuteBucket(),
      daily: new DailyBudget(),
      running: new RunningRequests(),
    };
    this.#states.set(keyId, state);
    return state;
  }
}

/** Of all limits in the way the one that stays longest: the others are then free too. */
function longestWait(
  { requests, tokens, daily, running }: KeyState,
  { requestsPerMinute, tokensPerMinute, maxConcurrent, dailyTokens }: KeyLimits,
  estimatedTokens: number,
  nowMs: number,
): Refusal | undefined {
  const waits: Refusal[] = [];
  const add = (kind: LimitKind, retryAfterMs: number) => waits.push({ kind, retryAfterMs });
  if (requestsPerMinute !== undefined) add('requests', requests.waitMs(1, requestsPerMinute, nowMs));
  if (tokensPerMinute !== undefined) add('tokens', tokens.waitMs(estimatedTokens, tokensPerMinute, nowMs));
  if (maxConcurrent !== undefined && running.count >= maxConcurrent) {
    add('concurrent', running.expectedWaitMs(nowMs));
  }
  if (dailyTokens !== undefined) {
    add('daily', daily.waitMs(estimatedTokens, dailyTokens, nowMs) ?? running.expectedWaitMs(nowMs));
  }
  return waits
    .filter(({ retryAfterMs }) => retryAfterMs > 0)
    .sort((a, b) => b.retryAfterMs - a.retryAfterMs)
    .at(0);
}

function grant(state: KeyState, limits: KeyLimits, estimatedTokens: number, nowMs: number): Permit {
  const { requestsPerMinute, tokensPerMinute } = limits;
  if (requestsPerMinute !== undefined) state.requests.charge(1, requestsPerMinute, nowMs);
  if (tokensPerMinute !== undefined) state.tokens.charge(estimatedTokens, tokensPerMinute, nowMs);
  state.daily.reserve(estimatedTokens);
  const request = state.running.start(nowMs);
  let settled = false;
  return {
    settle(usedTokens, timeMs) {
      if (settled) return;
      settled = true;
      const endMs = Math.floor(timeMs);
      state.running.end(request, endMs);
      state.daily.settle(estimatedTokens, usedTokens, endMs);
      if (tokensPerMinute !== undefined) {
        state.tokens.charge(usedTokens - estimatedTokens, tokensPerMinute, endMs);
      }
    },
  };
}

function standings(
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
