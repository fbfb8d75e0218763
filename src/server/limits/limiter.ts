// Admits requests within the limits of their key. Knows no clock: every call says what time it is.
// State is kept by key id; limits come with every call, so reloaded ones hold from the next request on.

import type { KeyLimits } from '../../store/key-record.ts';
import { DailyBudget } from './daily-budget.ts';
import { type LimitHeaders, retryHeaders, standingHeaders } from './headers.ts';
import { MinuteBucket } from './minute-bucket.ts';
import { RunningRequests } from './running-requests.ts';

export type LimitKind = 'requests' | 'tokens' | 'concurrent' | 'daily';

export interface LimitRefusal {
  readonly kind: LimitKind;
  /**
   * After that time the same request is admitted if nothing else happens. Where only running requests are in the
   * way, when the first should end.
   */
  readonly retryAfterMs: number;
  /** With `retry-after`. */
  readonly headers: LimitHeaders;
}

/** A request's place. Settled once, however the request ends. */
export interface Permit {
  /**
   * Says how many tokens the request is expected to use, once that is known; they count until it is settled. A
   * refused request has its place given back; as a request it has counted. Asked again, the new number replaces
   * the old one.
   */
  weigh(expectedTokens: number, nowMs: number): LimitRefusal | undefined;
  /** Gives the place back, and of the expected tokens those that were not used. Later calls do nothing. */
  settle(usedTokens: number, nowMs: number): void;
}

export type LimitResult =
  | { readonly ok: true; readonly permit: Permit; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

interface KeyState {
  readonly requests: MinuteBucket;
  readonly tokens: MinuteBucket;
  readonly daily: DailyBudget;
  readonly running: RunningRequests;
}

type Wait = Omit<LimitRefusal, 'headers'>;

export class Limiter {
  readonly #states = new Map<string, KeyState>();
  /** By key id. */
  readonly #days: Map<string, DailyBudget>;

  constructor(days = new Map<string, DailyBudget>()) {
    this.#days = days;
  }

  /**
   * For what runs in the background: minutes and places of its own, as large as the key's, so that it takes none from
   * whoever waits for an answer. The tokens of a day are the same.
   */
  apart(): Limiter {
    return new Limiter(this.#days);
  }

  /** What each key has used on the UTC day of that time, from before this process. */
  restoreDailyTokens(tokensByKey: ReadonlyMap<string, number>, nowMs: number): void {
    for (const [keyId, tokens] of tokensByKey) this.#state(keyId).daily.restore(tokens, nowMs);
  }

  /**
   * Before anything is done for the request: its key must have a request, a place and `leastTokens` left, which it
   * will use for certain. What it is expected to use is weighed later. A request above a whole limit passes once
   * nothing of that limit is used.
   */
  admit(keyId: string, limits: KeyLimits, timeMs: number, leastTokens = 1): LimitResult {
    const nowMs = Math.floor(timeMs);
    const state = this.#state(keyId);
    const refusal = refusalOf(state, limits, leastTokens, nowMs);
    if (refusal !== undefined) return { ok: false, ...refusal };
    const permit = grant(state, limits, nowMs);
    return { ok: true, permit, headers: standings(state, limits, nowMs) };
  }

  /** Where the key stands; a header for each limit it has. */
  headers(keyId: string, limits: KeyLimits, timeMs: number): LimitHeaders {
    return standings(this.#state(keyId), limits, Math.floor(timeMs));
  }

  #state(keyId: string): KeyState {
    const known = this.#states.get(keyId);
    if (known !== undefined) return known;
    const daily = this.#days.get(keyId) ?? new DailyBudget();
    this.#days.set(keyId, daily);
    const state = {
      requests: new MinuteBucket(),
      tokens: new MinuteBucket(),
      daily,
      running: new RunningRequests(),
    };
    this.#states.set(keyId, state);
    return state;
  }
}

function refusalOf(
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

function tokenWaits(
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

function grant(state: KeyState, limits: KeyLimits, startMs: number): Permit {
  const { requestsPerMinute, tokensPerMinute } = limits;
  if (requestsPerMinute !== undefined) state.requests.charge(1, requestsPerMinute, startMs);
  const request = state.running.start(startMs);
  let heldTokens = 0;
  let settled = false;
  const hold = (tokens: number, nowMs: number) => {
    const more = tokens - heldTokens;
    heldTokens = tokens;
    state.daily.reserve(more);
    if (tokensPerMinute !== undefined) state.tokens.charge(more, tokensPerMinute, nowMs);
  };
  return {
    weigh(expectedTokens, timeMs) {
      if (settled) return undefined;
      const nowMs = Math.floor(timeMs);
      hold(0, nowMs);
      const fits = tokenWaits(state, limits, expectedTokens, nowMs).every(
        ({ retryAfterMs }) => retryAfterMs === 0,
      );
      if (fits) {
        hold(expectedTokens, nowMs);
        return undefined;
      }
      settled = true;
      state.running.drop(request);
      // It must pass all limits when it comes again.
      return refusalOf(state, limits, expectedTokens, nowMs);
    },
    settle(usedTokens, timeMs) {
      if (settled) return;
      settled = true;
      const nowMs = Math.floor(timeMs);
      hold(usedTokens, nowMs);
      state.daily.settle(usedTokens, usedTokens, nowMs);
      state.running.end(request, nowMs);
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
