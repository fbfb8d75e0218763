// Limits that hold for all gateways of one database together. Each admission is one round trip, which the database
// decides; places are given back in the background, and again until it is heard. While the database does not answer,
// every gateway keeps to its share by itself.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KeyLimits } from '../../store/key-record.ts';
import type { LimitedRequest, LimitStanding, LimitStore, Settlement } from '../../store/limit-store.ts';
import { StoreError } from '../../store/store-error.ts';
import { DailyBudget } from './daily-budget.ts';
import {
  type Awaitable,
  isUnlimited,
  type KeyLimiter,
  type LimitRefusal,
  type LimitResult,
  type Permit,
  type Weighed,
} from './key-limiter.ts';
import { type KeyState, refusalOf, standings } from './key-state.ts';
import { Limiter } from './limiter.ts';
import { MinuteBucket } from './minute-bucket.ts';
import { expectedWait } from './running-requests.ts';

/** Well within the time after which a silent gateway is taken for dead. */
const BEAT_MS = 3000;
const LOOK_AGAIN_MS = 1000;
const CLOSE_MS = 2000;
const CLOSE_RETRY_MS = 50;

export interface SharedLimiterOptions {
  /** Told once when the database is lost, with the error, and once when it is back. */
  readonly onChange: (lost: unknown) => void;
}

type Calls = Pick<LimitStore, 'admit' | 'weigh' | 'settle' | 'beat' | 'leave'>;

const unlimited: LimitResult = {
  ok: true,
  headers: {},
  permit: { weigh: () => ({ ok: true, headers: {} }), settle: () => {} },
};

export class SharedLimiter implements KeyLimiter {
  readonly #store: Calls;
  readonly #options: SharedLimiterOptions;
  /** In the database's place while it is lost. */
  readonly #alone = new Limiter();
  /** Places that are to be given back, by request, until the database has heard of it. */
  readonly #unsettled = new Map<string, Settlement>();
  /** Where each key stood when the database last told, and when that was here. */
  readonly #standings = new Map<string, { readonly standing: LimitStanding; readonly atMs: number }>();
  #lost = false;
  /** That share the limits, as the database last knew. */
  #gateways = 1;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  private constructor(store: Calls, options: SharedLimiterOptions) {
    this.#store = store;
    this.#options = options;
  }

  static async open(store: Calls, options: SharedLimiterOptions): Promise<SharedLimiter> {
    const limiter = new SharedLimiter(store, options);
    await limiter.#beat();
    return limiter;
  }

  admit(keyId: string, limits: KeyLimits, nowMs: number, leastTokens = 1): Awaitable<LimitResult> {
    if (isUnlimited(limits)) return unlimited;
    if (this.#lost) return this.#admitAlone(keyId, limits, nowMs, leastTokens);
    return this.#admit(keyId, limits, nowMs, leastTokens);
  }

  /** The day is that of all gateways; of its minutes and places each has its share, by itself. */
  apart(): KeyLimiter {
    const own = new Limiter();
    return {
      apart: () => this.apart(),
      admit: async (keyId, limits, nowMs, leastTokens) => {
        const { dailyTokens, ...minutes } = shareOf(limits, this.#gateways);
        const day = await this.admit(keyId, { dailyTokens: limits.dailyTokens }, nowMs, leastTokens);
        if (!day.ok) return day;
        const minute = own.admit(keyId, minutes, nowMs, leastTokens);
        if (!minute.ok) day.permit.settle(0, nowMs);
        return minute.ok ? { ...minute, permit: bothOf(day.permit, minute.permit) } : minute;
      },
    };
  }

  /** Gives back all that is held, where the database answers; the requests themselves must be over. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    const endMs = performance.now() + CLOSE_MS;
    for (;;) {
      await this.#settleAll();
      if (this.#unsettled.size === 0 || performance.now() >= endMs) break;
      await sleep(CLOSE_RETRY_MS);
    }
    await this.#store.leave();
  }

  async #admit(keyId: string, limits: KeyLimits, nowMs: number, leastTokens: number): Promise<LimitResult> {
    // With a limit of requests alone nothing is held, and nothing has to be given back.
    const { tokensPerMinute, maxConcurrent, dailyTokens } = limits;
    const holds = (tokensPerMinute ?? maxConcurrent ?? dailyTokens) !== undefined;
    const requestId = holds ? randomUUID() : undefined;
    const standing = await this.#ask({ keyId, limits, tokens: leastTokens, requestId }, (request) =>
      this.#store.admit(request),
    );
    if (standing === undefined) {
      // It may have been admitted all the same.
      if (requestId !== undefined) this.#settle({ keyId, limits, requestId, usedTokens: 0, served: false });
      return this.#admitAlone(keyId, limits, nowMs, leastTokens);
    }
    const state = stateOf(standing);
    if (!standing.ok) return refused(state, limits, leastTokens, standing.now_ms);
    const headers = standings(state, limits, standing.now_ms);
    const permit = requestId === undefined ? passed(headers) : this.#permit(keyId, limits, requestId);
    return { ok: true, headers, permit };
  }

  #permit(keyId: string, limits: KeyLimits, requestId: string): Permit {
    let settled = false;
    let alone: Permit | undefined;
    const giveBack = (usedTokens: number, served: boolean) => {
      settled = true;
      this.#settle({ keyId, limits, requestId, usedTokens, served });
    };
    return {
      weigh: async (expectedTokens, nowMs): Promise<Weighed> => {
        if (settled) return { ok: true, headers: {} };
        if (alone !== undefined) return alone.weigh(expectedTokens, nowMs);
        const standing = await this.#ask({ keyId, limits, tokens: expectedTokens, requestId }, (request) =>
          this.#store.weigh(request),
        );
        if (standing === undefined) {
          const admitted = this.#admitAlone(keyId, limits, nowMs, expectedTokens);
          if (!admitted.ok) {
            giveBack(0, false);
            return admitted;
          }
          alone = admitted.permit;
          return alone.weigh(expectedTokens, nowMs);
        }
        const state = stateOf(standing);
        if (standing.ok) return { ok: true, headers: standings(state, limits, standing.now_ms) };
        settled = true;
        return refused(state, limits, expectedTokens, standing.now_ms);
      },
      settle: (usedTokens, nowMs) => {
        alone?.settle(usedTokens, nowMs);
        if (!settled) giveBack(usedTokens, true);
      },
    };
  }

  /** Undefined where the database does not answer. */
  async #ask(
    request: LimitedRequest,
    ask: (request: LimitedRequest) => Promise<LimitStanding>,
  ): Promise<LimitStanding | undefined> {
    if (this.#lost) return undefined;
    try {
      const standing = await ask(request);
      this.#standings.set(request.keyId, { standing, atMs: Date.now() });
      return standing;
    } catch (error) {
      this.#lose(error);
      return undefined;
    }
  }

  #admitAlone(keyId: string, limits: KeyLimits, nowMs: number, leastTokens: number): LimitResult {
    return this.#alone.admit(keyId, shareOf(limits, this.#gateways), nowMs, leastTokens);
  }

  #settle(settlement: Settlement): void {
    this.#unsettled.set(settlement.requestId, settlement);
    if (!this.#lost) void this.#send(settlement);
  }

  /** One that comes to nothing stays, and goes again when the database is back. */
  async #send(settlement: Settlement): Promise<void> {
    try {
      await this.#store.settle(settlement);
      this.#unsettled.delete(settlement.requestId);
    } catch (error) {
      this.#lose(error);
    }
  }

  async #settleAll(): Promise<void> {
    await Promise.all([...this.#unsettled.values()].map((settlement) => this.#send(settlement)));
  }

  /** Says that this gateway lives, and finds out whether the database does. */
  async #beat(): Promise<void> {
    try {
      this.#gateways = await this.#store.beat();
      if (this.#lost) {
        this.#lost = false;
        this.#options.onChange(undefined);
      }
      await this.#settleAll();
    } catch (error) {
      this.#lose(error);
    }
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => void this.#beat(), this.#lost ? LOOK_AGAIN_MS : BEAT_MS).unref();
  }

  #lose(error: unknown): void {
    const busy = error instanceof StoreError && error.fault === 'busy';
    if (busy || this.#lost || this.#closed) return;
    this.#lost = true;
    const share = (used: number) => Math.ceil(used / this.#gateways);
    for (const [keyId, { standing, atMs }] of this.#standings) {
      const requestsUsed = share(standing.requests_used);
      const tokensUsed = share(standing.tokens_used);
      this.#alone.restore(keyId, { requestsUsed, tokensUsed, dailyTokens: share(standing.day_tokens) }, atMs);
    }
    this.#options.onChange(error);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#beat(), LOOK_AGAIN_MS).unref();
  }
}

/** One that is refused by one of them holds nothing of the other. */
function bothOf(first: Permit, second: Permit): Permit {
  const settle = (usedTokens: number, nowMs: number) => {
    first.settle(usedTokens, nowMs);
    second.settle(usedTokens, nowMs);
  };
  return {
    settle,
    weigh: async (expectedTokens, nowMs) => {
      for (const one of [first, second]) {
        const weighed = await one.weigh(expectedTokens, nowMs);
        if (weighed.ok) continue;
        settle(0, nowMs);
        return weighed;
      }
      return { ok: true, headers: {} };
    },
  };
}

function passed(headers: LimitResult['headers']): Permit {
  return { weigh: () => ({ ok: true, headers }), settle: () => {} };
}

/** What one of so many gateways may give out by itself: at least one of each. */
function shareOf(limits: KeyLimits, gateways: number): KeyLimits {
  const share = (limit: number | undefined) =>
    limit === undefined ? undefined : Math.max(1, Math.floor(limit / gateways));
  return {
    requestsPerMinute: share(limits.requestsPerMinute),
    tokensPerMinute: share(limits.tokensPerMinute),
    maxConcurrent: share(limits.maxConcurrent),
    dailyTokens: share(limits.dailyTokens),
  };
}

function stateOf(standing: LimitStanding): KeyState {
  const { now_ms: nowMs, running, oldest_ms, mean_ms } = standing;
  const daily = new DailyBudget();
  daily.restore(standing.day_tokens, nowMs);
  daily.reserve(standing.reserved_tokens);
  return {
    requests: new MinuteBucket(standing.requests_used, nowMs),
    tokens: new MinuteBucket(standing.tokens_used, nowMs),
    daily,
    running: {
      count: running,
      expectedWaitMs: (atMs) => expectedWait(oldest_ms ?? undefined, mean_ms ?? undefined, atMs),
    },
  };
}

/** The database has refused by the same numbers, so there is a limit in the way. */
function refused(
  state: KeyState,
  limits: KeyLimits,
  tokens: number,
  nowMs: number,
): { readonly ok: false } & LimitRefusal {
  const refusal = refusalOf(state, limits, tokens, nowMs);
  if (refusal === undefined) throw new Error('a request was refused within all limits');
  return { ok: false, ...refusal };
}
