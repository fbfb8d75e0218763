// Admits requests within the limits of their key. Knows no clock: every call says what time it is.
// State is kept by key id; limits come with every call, so reloaded ones hold from the next request on.

import type { KeyLimits } from '../../store/key-record.ts';
import { DailyBudget } from './daily-budget.ts';
import type { LimitHeaders } from './headers.ts';
import type { KeyLimiter, LimitRefusal, Permit, Weighed } from './key-limiter.ts';
import { type KeyState, refusalOf, standings, tokenWaits } from './key-state.ts';
import { MinuteBucket } from './minute-bucket.ts';
import { RunningRequests } from './running-requests.ts';

/** Answers at once. */
export interface HeldPermit extends Permit {
  weigh(expectedTokens: number, nowMs: number): Weighed;
}

export type HeldResult =
  | { readonly ok: true; readonly permit: HeldPermit; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

interface HeldState extends KeyState {
  readonly running: RunningRequests;
}

/** What somebody else has counted; of limits a minute in 1/60000. */
export interface CountedUse {
  readonly requestsUsed: number;
  readonly tokensUsed: number;
  readonly dailyTokens: number;
}

export class Limiter implements KeyLimiter {
  readonly #states = new Map<string, HeldState>();
  /** By key id. */
  readonly #days: Map<string, DailyBudget>;

  constructor(days = new Map<string, DailyBudget>()) {
    this.#days = days;
  }

  apart(): Limiter {
    return new Limiter(this.#days);
  }

  /** What each key has used on the UTC day of that time, from before this process. */
  restoreDailyTokens(tokensByKey: ReadonlyMap<string, number>, nowMs: number): void {
    for (const [keyId, tokens] of tokensByKey) this.#state(keyId).daily.restore(tokens, nowMs);
  }

  /** Where a key stood at that time. */
  restore(keyId: string, { requestsUsed, tokensUsed, dailyTokens }: CountedUse, atMs: number): void {
    const { requests, tokens, daily } = this.#state(keyId);
    requests.restore(requestsUsed, atMs);
    tokens.restore(tokensUsed, atMs);
    daily.restore(dailyTokens, atMs);
  }

  admit(keyId: string, limits: KeyLimits, timeMs: number, leastTokens = 1): HeldResult {
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

  #state(keyId: string): HeldState {
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

function grant(state: HeldState, limits: KeyLimits, startMs: number): HeldPermit {
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
      const nowMs = Math.floor(timeMs);
      if (settled) return { ok: true, headers: standings(state, limits, nowMs) };
      hold(0, nowMs);
      const fits = tokenWaits(state, limits, expectedTokens, nowMs).every(
        ({ retryAfterMs }) => retryAfterMs === 0,
      );
      if (fits) {
        hold(expectedTokens, nowMs);
        return { ok: true, headers: standings(state, limits, nowMs) };
      }
      settled = true;
      state.running.drop(request);
      // It must pass all limits when it comes again.
      return { ok: false, ...(refusalOf(state, limits, expectedTokens, nowMs) as LimitRefusal) };
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
