// What a request's key allows it, asked before anything is done for it: the contract of the limiter in memory and of the
// one that several gateways share.

import type { KeyLimits } from '../../store/key-record.ts';
import type { LimitHeaders } from './headers.ts';

export type Awaitable<Value> = Value | Promise<Value>;

export type LimitKind = 'requests' | 'tokens' | 'concurrent' | 'daily';

/** How many tokens a request will use. */
export interface TokenDemand {
  /** For certain: its prompts, and the shortest answers they may have. */
  readonly least: number;
  /** What is held for it, where there is as much. */
  readonly expected: number;
}

/** What a limit of tokens has and what was asked of it. */
interface LimitNumbers {
  readonly limit: number;
  readonly used: number;
  /** Neither used nor held by running requests. */
  readonly left: number;
  readonly asked: number;
}

export interface LimitRefusal {
  readonly kind: LimitKind;
  /**
   * After that time the same request is admitted if nothing else happens. Where only running requests are in the
   * way, when the first should end. Infinite where it never is: it needs more than the whole limit.
   */
  readonly retryAfterMs: number;
  /** Of a limit of tokens. */
  readonly numbers?: LimitNumbers | undefined;
  /** With `retry-after`. */
  readonly headers: LimitHeaders;
}

/** What a request holds of its key's limits. Settled once, however the request ends. */
export interface Permit {
  /**
   * Says once how many tokens the request will use, when that is known; what is held counts until it is settled. A
   * refused request no longer counts as running; it still counts as a request of the minute.
   */
  weigh(demand: TokenDemand, nowMs: number): Awaitable<Weighed>;
  /** Holds up to so many more, when all that was held is used; how many, 0 where none are left. */
  grow(tokens: number, nowMs: number): Awaitable<number>;
  /** Ends the request for the limits, and gives back the expected tokens that it did not use. Later calls do nothing. */
  settle(usedTokens: number, nowMs: number): void;
}

export type Weighed =
  | {
      readonly ok: true;
      readonly headers: LimitHeaders;
      /** What is expected, or what is left where that is less. */
      readonly heldTokens: number;
      /** What it may come to in all before the day is used up, as things stand. */
      readonly mostTokens: number;
    }
  | ({ readonly ok: false } & LimitRefusal);

export type LimitResult =
  | { readonly ok: true; readonly permit: Permit; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

export interface KeyLimiter {
  /**
   * Before anything is done for the request: its key must have a request, a place and what is known of its demand
   * left. What it will use is weighed later. Where more tokens are expected than a day has left, or a minute has at
   * all, the rest of the day or the whole minute will do.
   */
  admit(keyId: string, limits: KeyLimits, nowMs: number, demand?: TokenDemand): Awaitable<LimitResult>;
  /**
   * For what runs in the background: minutes and places of its own, as large as the key's, so that it takes none from
   * whoever waits for an answer. The tokens of a day are the same.
   */
  apart(): KeyLimiter;
}

/** Of what is no matter of tokens. */
export const NO_TOKENS: TokenDemand = { least: 0, expected: 0 };
/** A token of something. */
export const LEAST_DEMAND: TokenDemand = { least: 1, expected: 1 };

/** Whether answers may have to end because of them. */
export function limitsTokens({ tokensPerMinute, dailyTokens }: KeyLimits): boolean {
  return tokensPerMinute !== undefined || dailyTokens !== undefined;
}

/** What a key may hold of the KV cache is the engine's matter. */
export function isUnlimited({ kvShare: _, ...limits }: KeyLimits): boolean {
  return Object.values(limits).every((limit) => limit === undefined);
}
