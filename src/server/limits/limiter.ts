// Admits requests within the limits of their key. It has no clock: every call passes the time. State is kept by key id; limits
// come with every call, so that new ones apply from the next request on.

import type { KeyLimits } from '../../store/key-record.ts';
import { DailyBudget } from './daily-budget.ts';
import {
  type KeyLimiter,
  LEAST_DEMAND,
  type LimitHeaders,
  type LimitRefusal,
  type Permit,
  type RemainingLimit,
  type TokenDemand,
  type Weighed,
} from './key-limiter.ts';
import {
  heldTokens,
  type KeyState,
  limitHeaders,
  refusalOf,
  remainingLimits,
  tokenWaits,
  weighed,
} from './key-state.ts';
import { type Hold, MinuteBucket } from './minute-bucket.ts';
import { RunningRequests } from './running-requests.ts';

export interface HeldPermit extends Permit {
  weigh(demand: TokenDemand, nowMs: number): Weighed;
  grow(tokens: number, nowMs: number): number;
}

export type HeldResult =
  | { readonly ok: true; readonly permit: HeldPermit; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

interface HeldState extends KeyState {
  readonly running: RunningRequests;
}

/** What the database has counted; limits per minute in units of 1/60000. */
interface CountedUse {
  readonly requestsUsed: number;
  readonly tokensUsed: number;
  readonly dailyTokens: number;
}

export class Limiter implements KeyLimiter {
  readonly #states = new Map<string, HeldState>();
  readonly #days: Map<string, DailyBudget>;

  constructor(days = new Map<string, DailyBudget>()) {
    this.#days = days;
  }

  apart(): Limiter {
    return new Limiter(this.#days);
  }

  /** What each key has used on the UTC day of that time, from before this process, with what was carried over to it. */
  restoreDailyTokens(tokensByKey: ReadonlyMap<string, number>, nowMs: number): void {
    for (const [keyId, tokens] of tokensByKey) this.#state(keyId).daily.restore(tokens, nowMs);
  }

  restore(keyId: string, { requestsUsed, tokensUsed, dailyTokens }: CountedUse, atMs: number): void {
    const { requests, tokens, daily } = this.#state(keyId);
    requests.restore(requestsUsed, atMs);
    tokens.restore(tokensUsed, atMs);
    daily.restore(dailyTokens, atMs);
  }

  admit(keyId: string, limits: KeyLimits, timeMs: number, demand = LEAST_DEMAND): HeldResult {
    const nowMs = Math.floor(timeMs);
    const state = this.#state(keyId);
    const refusal = refusalOf(state, limits, demand, nowMs);
    if (refusal !== undefined) return { ok: false, ...refusal };
    const permit = grant(state, limits, nowMs);
    return { ok: true, permit, headers: limitHeaders(state, limits, nowMs) };
  }

  headers(keyId: string, limits: KeyLimits, timeMs: number): LimitHeaders {
    return limitHeaders(this.#state(keyId), limits, Math.floor(timeMs));
  }

  remaining(keyId: string, limits: KeyLimits, timeMs: number): RemainingLimit[] {
    return remainingLimits(this.#state(keyId), limits, Math.floor(timeMs));
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
  const { requestsPerMinute, tokensPerMinute, dailyTokens } = limits;
  if (requestsPerMinute !== undefined) state.requests.charge(1, requestsPerMinute, startMs);
  const request = state.running.start(startMs);
  let held = 0;
  /** The last hold; the tokens of those before it are used. */
  let last: Hold | undefined;
  let settled = false;
  const release = (unused: number, nowMs: number) => {
    if (last !== undefined) state.tokens.release(last, unused, tokensPerMinute as number, nowMs);
    last = undefined;
  };
  const hold = (tokens: number, nowMs: number) => {
    held += tokens;
    state.daily.reserve(tokens);
    release(0, nowMs);
    if (tokensPerMinute !== undefined) last = state.tokens.hold(tokens, tokensPerMinute, nowMs);
  };
  return {
    weigh(demand, timeMs) {
      const nowMs = Math.floor(timeMs);
      const waits = settled ? [] : tokenWaits(state, limits, demand, nowMs);
      if (waits.every(({ retryAfterMs }) => retryAfterMs === 0)) {
        const tokens = heldTokens(state, limits, demand, nowMs);
        if (!settled) hold(tokens, nowMs);
        return weighed(state, limits, tokens, nowMs);
      }
      settled = true;
      state.running.drop(request);
      // The request must pass all limits when it is sent again.
      return { ok: false, ...(refusalOf(state, limits, demand, nowMs) as LimitRefusal) };
    },
    grow(tokens, timeMs) {
      const nowMs = Math.floor(timeMs);
      if (settled) return 0;
      const minute = tokensPerMinute === undefined ? tokens : state.tokens.remaining(tokensPerMinute, nowMs);
      const day = dailyTokens === undefined ? tokens : state.daily.remaining(dailyTokens, nowMs);
      const more = Math.min(tokens, minute, day);
      if (more > 0) hold(more, nowMs);
      return more;
    },
    settle(usedTokens, timeMs) {
      if (settled) return;
      settled = true;
      const nowMs = Math.floor(timeMs);
      release(Math.max(0, held - usedTokens), nowMs);
      if (usedTokens > held && tokensPerMinute !== undefined) {
        state.tokens.charge(usedTokens - held, tokensPerMinute, nowMs);
      }
      state.daily.settle(held, usedTokens, dailyTokens, nowMs);
      state.running.end(request, nowMs);
    },
  };
}
