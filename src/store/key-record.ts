// What is stored of an API key besides its hash.

export const TIERS = ['high', 'normal', 'low'] as const;

export type Tier = (typeof TIERS)[number];

/** Absent means unlimited. */
export interface KeyLimits {
  readonly requestsPerMinute?: number | undefined;
  readonly tokensPerMinute?: number | undefined;
  readonly maxConcurrent?: number | undefined;
  readonly dailyTokens?: number | undefined;
  /** The fraction of a model's KV blocks, above 0 and up to 1, for running and cached sequences together. */
  readonly kvShare?: number | undefined;
}

export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  /** The first characters of the key, so that its holder can recognise it. */
  readonly prefix: string;
  readonly tier: Tier;
  readonly admin: boolean;
  readonly limits: KeyLimits;
  /** Milliseconds since 1970, as all times of the store. */
  readonly createdMs: number;
  readonly revokedMs?: number;
}

/** Used for usage and limits of requests without a key; never a key's id. */
export const ANONYMOUS_KEY_ID = 'anonymous';
