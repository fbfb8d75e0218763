// Who asks: keys of every tier, with and without limits, that live as long as the run.

import type { Admin, MadeKey, NewKey } from './admin.ts';

export interface Account {
  readonly name: string;
  readonly id: string;
  readonly key: string;
  /** May be told 429 although the queue is not full. */
  readonly limited: boolean;
  readonly tokensPerMinute?: number | undefined;
  readonly requestsPerMinute?: number | undefined;
  readonly dailyTokens?: number | undefined;
  /** What it is for; others are anybody's. */
  readonly role: 'any' | 'batches' | 'crowds' | 'burst';
}

const TIERS = ['high', 'normal', 'low'] as const;

/** The tokens a minute of the key that tries to get more. */
export const BURST_TOKENS = 61_000;

/** Those that may refuse a request. */
const limits = ['requests_per_minute', 'tokens_per_minute', 'max_concurrent', 'daily_tokens'] as const;

const newKeys: readonly (NewKey & { readonly role?: Account['role'] })[] = [
  ...TIERS.flatMap((tier) => [
    { name: `${tier}-free`, tier },
    { name: `${tier}-also-free`, tier },
  ]),
  { name: 'few-requests', tier: 'high', requests_per_minute: 30 },
  { name: 'few-tokens', tier: 'normal', tokens_per_minute: 4000 },
  { name: 'one-at-a-time', tier: 'normal', max_concurrent: 1 },
  { name: 'small-day', tier: 'low', daily_tokens: 20_000 },
  // Less than many an answer takes.
  { name: 'tiny-day', tier: 'normal', daily_tokens: 100 },
  { name: 'all-limits', tier: 'low', requests_per_minute: 60, tokens_per_minute: 20_000, max_concurrent: 3 },
  // Its sequences wait for each other, and for nobody else.
  // Enough for the longest request alone, not for two of them.
  { name: 'small-share', tier: 'normal', kv_share: 0.9 },
  { name: 'batches', tier: 'normal', role: 'batches' },
  { name: 'crowds', tier: 'normal', role: 'crowds' },
  { name: 'burst', tier: 'high', tokens_per_minute: BURST_TOKENS, role: 'burst' },
];

export async function makeAccounts(admin: Admin): Promise<Account[]> {
  const accounts: Account[] = [];
  for (const { role = 'any', ...newKey } of newKeys) {
    const { status, text } = await admin.createKey(newKey);
    if (status !== 201) throw new Error(`no key could be made: ${status} ${text}`);
    const { id, key } = JSON.parse(text) as MadeKey;
    accounts.push({
      name: newKey.name,
      id,
      key,
      role,
      limited: limits.some((limit) => newKey[limit] !== undefined),
      tokensPerMinute: newKey.tokens_per_minute,
      requestsPerMinute: newKey.requests_per_minute,
      dailyTokens: newKey.daily_tokens,
    });
  }
  return accounts;
}
