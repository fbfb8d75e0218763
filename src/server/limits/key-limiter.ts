// What the key of a request allows, asked before anything is done for it: the contract of the limiter in memory and of the
// one that several gateways share.

import type { KeyLimits } from '../../store/key-record.ts';

export type LimitHeaders = Readonly<Record<string, string>>;

export type Awaitable<Value> = Value | Promise<Value>;

export type LimitKind = 'requests' | 'tokens' | 'concurrent' | 'daily';

export interface TokenDemand {
  /** The least: its prompts, and the shortest answers they may have. */
  readonly least: number;
  readonly expected: number;
}

interface LimitNumbers {
  readonly limit: number;
  readonly used: number;
  readonly left: number;
  readonly asked: number;
}

export interface LimitRefusal {
  readonly kind: LimitKind;
  /**
   * The time after which the same request is admitted if nothing else happens. Where only running requests are in the
   * way, the time until the first should end. Infinite for a request that needs more than the whole limit.
   */
  readonly retryAfterMs: number;
  readonly numbers?: LimitNumbers | undefined;
  readonly headers: LimitHeaders;
}

/** What a request holds of its key's limits. Settled once, however the request ends. */
export interface Permit {
  /**
   * Called once, when it is known how many tokens the request will use; they are held until the permit is settled. A
   * refused request no longer counts as running; it still counts as a request of the minute.
   */
  weigh(demand: TokenDemand, nowMs: number): Awaitable<Weighed>;
  /** Holds at most this many more when all held tokens are used; returns how many, 0 where none are left. */
  grow(tokens: number, nowMs: number): Awaitable<number>;
  /** Ends the request for the limits, and gives back the expected tokens that it did not use. Later calls do nothing. */
  settle(usedTokens: number, nowMs: number): void;
}

export type Weighed =
  | {
      readonly ok: true;
      readonly headers: LimitHeaders;
      readonly heldTokens: number;
      /** The most that the request may use before the daily tokens are used up. */
      readonly mostTokens: number;
    }
  | ({ readonly ok: false } & LimitRefusal);

export type LimitResult =
  | { readonly ok: true; readonly permit: Permit; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

/** What is left of one limit of a key. */
export interface RemainingLimit {
  readonly kind: LimitKind;
  readonly limit: number;
  readonly remaining: number;
  /** The time until all of it is left again, or until the next day; absent for concurrent requests, whose ends are not known. */
  readonly resetMs?: number;
}

export interface KeyLimiter {
  /**
   * Called before anything is done for the request: its key must have a request, a concurrent request and the known part of
   * the demand left. The rest is weighed later. Where more tokens are expected than the day has left, or than a whole minute
   * has, the rest of the day or the whole minute is enough.
   */
  admit(keyId: string, limits: KeyLimits, nowMs: number, demand?: TokenDemand): Awaitable<LimitResult>;
  /** Of each limit that the key has; takes nothing. */
  remaining(keyId: string, limits: KeyLimits, nowMs: number): Awaitable<readonly RemainingLimit[]>;
  /**
   * A limiter for background requests, with minutes and concurrent requests of its own, as large as the key's, so that it
   * takes none from clients that wait. Daily tokens are shared.
   */
  apart(): KeyLimiter;
}

export const NO_TOKENS: TokenDemand = { least: 0, expected: 0 };
export const LEAST_DEMAND: TokenDemand = { least: 1, expected: 1 };

/** Whether answers may have to end because of the limits. */
export function limitsTokens({ tokensPerMinute, dailyTokens }: KeyLimits): boolean {
  return tokensPerMinute !== undefined || dailyTokens !== undefined;
}

/** The engine enforces kvShare, which does not count here. */
export function isUnlimited({ kvShare: _, ...limits }: KeyLimits): boolean {
  return Object.values(limits).every((limit) => limit === undefined);
}
