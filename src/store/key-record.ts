// What is known of an API key once its secret is gone: who holds it, its tier, its limits.

export const TIERS = ['high', 'normal', 'low'] as const;

export type Tier = (typeof TIERS)[number];

/** Absent means unlimited. */
export interface KeyLimits {
  readonly requestsPerMinute?: number | undefined;
  readonly tokensPerMinute?: number | undefined;
  readonly maxConcurrent?: number | undefined;
  readonly dailyTokens?: number | undefined;
  /** The part of a model's KV blocks, above 0 and up to 1, that its running and cached sequences may hold together. */
  readonly kvShare?: number | undefined;
}

export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  /** The first characters of the key, enough for its holder to recognise it. */
  readonly prefix: string;
  readonly tier: Tier;
  readonly admin: boolean;
  readonly limits: KeyLimits;
  /** Milliseconds since 1970, as all times of the store. */
  readonly createdMs: number;
  readonly revokedMs?: number;
}

/** Stands for the key in usage and limits where a request needed none; never a key's id. */
export const ANONYMOUS_KEY_ID = 'anonymous';
