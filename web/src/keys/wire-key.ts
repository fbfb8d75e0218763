// A key as /admin/keys has it.

import type { Tier } from '../../../src/store/key-record.ts';

export interface WireKey {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly tier: Tier;
  readonly admin: boolean;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly max_concurrent: number | null;
  readonly daily_tokens: number | null;
  readonly kv_share: number | null;
  readonly created: number;
  readonly revoked: number | null;
}
