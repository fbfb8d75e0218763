// The tables as Kysely sees them; `migrations.ts` makes them.

export interface ApiKeyTable {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  /** SHA-256 of the key, in hexadecimal. */
  readonly hash: string;
  readonly tier: string;
  readonly admin: number;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly max_concurrent: number | null;
  readonly daily_tokens: number | null;
  readonly created_ms: number;
  readonly revoked_ms: number | null;
}

export interface KeyUsageTable {
  readonly key_id: string;
  /** A day in UTC, `2026-01-31`. */
  readonly day: string;
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly errors: number;
}

export interface Schema {
  readonly api_key: ApiKeyTable;
  readonly key_usage: KeyUsageTable;
}
