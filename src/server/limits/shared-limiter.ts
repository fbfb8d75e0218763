// Limits that hold for all gateways of one database together. Each admission is one round trip, which the database
// decides; what a request held is given back in the background, and retried until the database confirms it. While the
// database does not answer, every gateway limits keys to its own share.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store/database.ts';
import type { KeyLimits } from '../../store/key-record.ts';
import type { LimitStatus, LimitStore, Settlement } from '../../store/limit-store.ts';
import { DailyBudget } from './daily-budget.ts';
import {
  type Awaitable,
  isUnlimited,
  type KeyLimiter,
  LEAST_DEMAND,
  type LimitRefusal,
  type LimitResult,
  type Permit,
  type RemainingLimit,
  type TokenDemand,
  type Weighed,
} from './key-limiter.ts';
import { type KeyState, limitHeaders, refusalOf, remainingLimits, weighed } from './key-state.ts';
import { Limiter } from './limiter.ts';
import { MinuteBucket } from './minute-bucket.ts';
import { expectedWait } from './running-requests.ts';

/** Well within the time after which a silent gateway counts as dead. */
const BEAT_MS = 3000;
const LOOK_AGAIN_MS = 1000;
const CLOSE_MS = 2000;
const CLOSE_RETRY_MS = 50;

export interface SharedLimiterOptions {
  readonly onChange: (lost: unknown) => void;
}

type Calls = Pick<LimitStore, 'admit' | 'look' | 'weigh' | 'grow' | 'settle' | 'beat' | 'leave'>;

const unlimited: LimitResult = { ok: true, headers: {}, permit: passed({}) };

export class SharedLimiter implements KeyLimiter {
  readonly #store: Calls;
  readonly #options: SharedLimiterOptions;
  readonly #alone = new Limiter();
  /** Permits to give back, by request, until the database has confirmed it. */
  readonly #unsettled = new Map<string, Settlement>();
  readonly #statuses = new Map<string, { readonly status: LimitStatus; readonly atMs: number }>();
  #lost = false;
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

  admit(keyId: string, limits: KeyLimits, nowMs: number, demand = LEAST_DEMAND): Awaitable<LimitResult> {
    if (isUnlimited(limits)) return unlimited;
    if (this.#lost) return this.#admitAlone(keyId, limits, nowMs, demand);
    return this.#admit(keyId, limits, nowMs, demand);
  }

  /** Of this gateway's share while the database does not answer. */
  async remaining(keyId: string, limits: KeyLimits, nowMs: number): Promise<RemainingLimit[]> {
    if (isUnlimited(limits)) return [];
    const status = await this.#ask(keyId, () => this.#store.look(keyId, limits));
    if (status === undefined) return this.#alone.remaining(keyId, shareOf(limits, this.#gateways), nowMs);
    return remainingLimits(stateOf(status), limits, status.now_ms);
  }

  /** Daily tokens are shared by all gateways; of minutes and concurrent requests each has its own share. */
  apart(): KeyLimiter {
    const own = new Limiter();
    return {
      apart: () => this.apart(),
      remaining: async (keyId, { dailyTokens, ...minutes }, nowMs) => [
        ...own.remaining(keyId, shareOf(minutes, this.#gateways), nowMs),
        ...(await this.remaining(keyId, { dailyTokens }, nowMs)),
      ],
      admit: async (keyId, limits, nowMs, demand) => {
        const { dailyTokens, ...minutes } = limits;
        const day = await this.admit(keyId, { dailyTokens }, nowMs, demand);
        if (!day.ok) return day;
        const minute = admitShare(own, keyId, minutes, this.#gateways, nowMs, demand);
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

  async #admit(keyId: string, limits: KeyLimits, nowMs: number, demand: TokenDemand): Promise<LimitResult> {
    // With a limit of requests alone nothing is held, and nothing has to be given back.
    const { tokensPerMinute, maxConcurrent, dailyTokens } = limits;
    const holds = (tokensPerMinute ?? maxConcurrent ?? dailyTokens) !== undefined;
    const requestId = holds ? randomUUID() : undefined;
    const status = await this.#ask(keyId, () =>
      this.#store.admit({ keyId, limits, ...tokensOf(demand), requestId }),
    );
    if (status === undefined) {
      // The database may have admitted it all the same.
      if (requestId !== undefined) this.#settle({ keyId, limits, requestId, usedTokens: 0, served: false });
      return this.#admitAlone(keyId, limits, nowMs, demand);
    }
    const state = stateOf(status);
    if (!status.ok) return refused(state, limits, demand, status.now_ms);
    const headers = limitHeaders(state, limits, status.now_ms);
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
      weigh: async (demand, nowMs): Promise<Weighed> => {
        if (settled) return unweighed(demand, {});
        const status = await this.#ask(keyId, () =>
          this.#store.weigh({ keyId, limits, ...tokensOf(demand), requestId }),
        );
        if (status === undefined) {
          const admitted = this.#admitAlone(keyId, limits, nowMs, demand);
          if (!admitted.ok) {
            giveBack(0, false);
            return admitted;
          }
          alone = admitted.permit;
          return alone.weigh(demand, nowMs);
        }
        const state = stateOf(status);
        if (status.ok) return weighed(state, limits, status.held_tokens, status.now_ms);
        settled = true;
        return refused(state, limits, demand, status.now_ms);
      },
      grow: async (moreTokens, nowMs) => {
        if (settled) return 0;
        if (alone === undefined) {
          const grown = await this.#ask(keyId, () =>
            this.#store.grow({ keyId, limits, moreTokens, requestId }),
          );
          if (grown !== undefined) return grown.held_tokens;
          // The request runs already: it counts neither as a new one nor as another that runs.
          const { tokensPerMinute, dailyTokens } = limits;
          const admitted = this.#admitAlone(keyId, { tokensPerMinute, dailyTokens }, nowMs, LEAST_DEMAND);
          if (!admitted.ok) return 0;
          alone = admitted.permit;
        }
        return alone.grow(moreTokens, nowMs);
      },
      settle: (usedTokens, nowMs) => {
        alone?.settle(usedTokens, nowMs);
        if (!settled) giveBack(usedTokens, true);
      },
    };
  }

  async #ask(keyId: string, ask: () => Promise<LimitStatus>): Promise<LimitStatus | undefined> {
    if (this.#lost) return undefined;
    try {
      const status = await ask();
      this.#statuses.set(keyId, { status, atMs: Date.now() });
      return status;
    } catch (error) {
      this.#lose(error);
      return undefined;
    }
  }

  #admitAlone(keyId: string, limits: KeyLimits, nowMs: number, demand: TokenDemand): LimitResult {
    return admitShare(this.#alone, keyId, limits, this.#gateways, nowMs, demand);
  }

  #settle(settlement: Settlement): void {
    this.#unsettled.set(settlement.requestId, settlement);
    if (!this.#lost) void this.#send(settlement);
  }

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
    for (const [keyId, { status, atMs }] of this.#statuses) {
      const requestsUsed = share(status.requests_used);
      const tokensUsed = share(status.tokens_used);
      this.#alone.restore(keyId, { requestsUsed, tokensUsed, dailyTokens: share(status.day_tokens) }, atMs);
    }
    this.#options.onChange(error);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#beat(), LOOK_AGAIN_MS).unref();
  }
}

/** Checks the day and the minute; a request that one of them refuses holds nothing of the other. */
function bothOf(first: Permit, second: Permit): Permit {
  const settle = (usedTokens: number, nowMs: number) => {
    first.settle(usedTokens, nowMs);
    second.settle(usedTokens, nowMs);
  };
  return {
    settle,
    weigh: async (demand, nowMs) => {
      const day = await first.weigh(demand, nowMs);
      const minute = day.ok ? await second.weigh({ ...demand, expected: day.heldTokens }, nowMs) : day;
      if (day.ok && minute.ok) return { ...minute, headers: {}, mostTokens: day.mostTokens };
      settle(0, nowMs);
      return minute;
    },
    grow: async (tokens, nowMs) => second.grow(await first.grow(tokens, nowMs), nowMs),
  };
}

function passed(headers: LimitResult['headers']): Permit {
  return {
    weigh: (demand) => unweighed(demand, headers),
    grow: (tokens) => tokens,
    settle: () => {},
  };
}

function unweighed({ expected }: TokenDemand, headers: LimitResult['headers']): Weighed {
  return { ok: true, headers, heldTokens: expected, mostTokens: Number.POSITIVE_INFINITY };
}

function tokensOf({ least, expected }: TokenDemand): { leastTokens: number; expectedTokens: number } {
  return { leastTokens: least, expectedTokens: expected };
}

/** Decides within this gateway's share. A request that needs more than that, but not more than the limit, takes all of it. */
function admitShare(
  limiter: Limiter,
  keyId: string,
  limits: KeyLimits,
  gateways: number,
  nowMs: number,
  demand = LEAST_DEMAND,
): LimitResult {
  const share = shareOf(limits, gateways);
  const mostOf = ({ tokensPerMinute, dailyTokens }: KeyLimits) =>
    Math.min(tokensPerMinute ?? Number.POSITIVE_INFINITY, dailyTokens ?? Number.POSITIVE_INFINITY);
  const fitted = ({ least, expected }: TokenDemand) => ({
    least: least <= mostOf(limits) ? Math.min(least, mostOf(share)) : least,
    expected,
  });
  const result = limiter.admit(keyId, share, nowMs, fitted(demand));
  if (!result.ok) return result;
  const { permit } = result;
  const weigh: Permit['weigh'] = (weight, atMs) => {
    const answer = permit.weigh(fitted(weight), atMs);
    return answer.ok ? { ...answer, heldTokens: Math.max(weight.least, answer.heldTokens) } : answer;
  };
  return { ...result, permit: { ...permit, weigh } };
}

/** The share of one of several gateways: at least one of each limit. */
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

function stateOf(status: LimitStatus): KeyState {
  const { now_ms: nowMs, running, oldest_ms, mean_ms } = status;
  const daily = new DailyBudget();
  daily.restore(status.day_tokens, nowMs);
  daily.reserve(status.reserved_tokens);
  return {
    requests: new MinuteBucket(status.requests_used, nowMs),
    tokens: new MinuteBucket(status.tokens_used, nowMs),
    daily,
    running: {
      count: running,
      expectedWaitMs: (atMs) => expectedWait(oldest_ms ?? undefined, mean_ms ?? undefined, atMs),
    },
  };
}

/** The database has refused by the same numbers, so that one of the limits must refuse here, too. */
function refused(
  state: KeyState,
  limits: KeyLimits,
  demand: TokenDemand,
  nowMs: number,
): { readonly ok: false } & LimitRefusal {
  const refusal = refusalOf(state, limits, demand, nowMs);
  if (refusal === undefined) throw new Error('a request was refused within all limits');
  return { ok: false, ...refusal };
}
