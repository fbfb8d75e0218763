// Who asks: keys of every tier, with and without limits, that live as long as the run.

import type { Admin, MadeKey, NewKey } from './admin.ts';

export interface Account {
  readonly name: string;
  readonly id: string;
  readonly key: string;
  /** May be told 429 although the queue is not full. */
  readonly limited: boolean;
}

const TIERS = ['high', 'normal', 'low'] as const;

const wishes: readonly NewKey[] = [
  ...TIERS.flatMap((tier) => [
    { name: `${tier}-free`, tier },
    { name: `${tier}-also-free`, tier },
  ]),
  { name: 'few-requests', tier: 'high', requests_per_minute: 30 },
  { name: 'few-tokens', tier: 'normal', tokens_per_minute: 4000 },
  { name: 'one-at-a-time', tier: 'normal', max_concurrent: 1 },
  { name: 'small-day', tier: 'low', daily_tokens: 20_000 },
  { name: 'all-limits', tier: 'low', requests_per_minute: 60, tokens_per_minute: 20_000, max_concurrent: 3 },
];

export async function makeAccounts(admin: Admin): Promise<Account[]> {
  const accounts: Account[] = [];
  for (const wish of wishes) {
    const { status, text } = await admin.createKey(wish);
    if (status !== 201) throw new Error(`no key could be made: ${status} ${text}`);
    const { id, key } = JSON.parse(text) as MadeKey;
    accounts.push({ name: wish.name, id, key, limited: Object.keys(wish).length > 2 });
  }
  return accounts;
}
