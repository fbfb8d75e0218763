// What a request's key allows it, asked before anything is done for it: the contract of the limiter in memory and of the
// one that several gateways share.

import type { KeyLimits } from '../../store/key-record.ts';
import type { LimitHeaders } from './headers.ts';

export type Awaitable<Value> = Value | Promise<Value>;

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
  weigh(expectedTokens: number, nowMs: number): Awaitable<Weighed>;
  /** Gives the place back, and of the expected tokens those that were not used. Later calls do nothing. */
  settle(usedTokens: number, nowMs: number): void;
}

export type Weighed =
  | { readonly ok: true; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

export type LimitResult =
  | { readonly ok: true; readonly permit: Permit; readonly headers: LimitHeaders }
  | ({ readonly ok: false } & LimitRefusal);

export interface KeyLimiter {
  /**
   * Before anything is done for the request: its key must have a request, a place and `leastTokens` left, which it
   * will use for certain. What it is expected to use is weighed later. A request above a whole limit passes once
   * nothing of that limit is used.
   */
  admit(keyId: string, limits: KeyLimits, nowMs: number, leastTokens?: number): Awaitable<LimitResult>;
  /**
   * For what runs in the background: minutes and places of its own, as large as the key's, so that it takes none from
   * whoever waits for an answer. The tokens of a day are the same.
   */
  apart(): KeyLimiter;
}

export function isUnlimited(limits: KeyLimits): boolean {
  return Object.values(limits).every((limit) => limit === undefined);
}
