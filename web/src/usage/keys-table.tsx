// Usage of every key, the one that used most first.

import type { UsageKey } from '../../../src/server/page/usage.ts';
import type { UsageRow } from '../../../src/store/usage-report.ts';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { TierMark } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { count, percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { sumOf, type UsageSum } from './usage-sums.ts';

interface KeyUsage extends UsageSum {
  readonly key: UsageKey;
  readonly today: number;
}

interface KeysTableProps {
  readonly keys: readonly UsageKey[];
  readonly rows: readonly UsageRow[];
  readonly today: string;
  readonly days: string;
}

export function KeysTable({ keys, rows, today, days }: KeysTableProps) {
  const used = keys
    .map((key): KeyUsage => {
      const own = rows.filter(({ keyId }) => keyId === key.id);
      const { prompt, answer } = sumOf(own.filter(({ day }) => day === today));
      return { key, ...sumOf(own), today: prompt + answer };
    })
    // Keys that count no more are shown where they were used.
    .filter(({ key, requests }) => requests > 0 || (!key.revoked && key.name !== undefined))
    .sort((a, b) => b.prompt + b.answer - (a.prompt + a.answer));
  return (
    <section class="panel" aria-labelledby="usage-keys-title">
      <h2 id="usage-keys-title">By key</h2>
      <DataTable
        caption="Usage by key"
        columns={columnsOf(days)}
        rows={used}
        keyOf={({ key }) => key.id}
        isGone={({ key }) => key.revoked}
      />
      {used.length === 0 && <p class="empty">There are no keys, and nothing was used.</p>}
    </section>
  );
}

function columnsOf(days: string): readonly Column<KeyUsage>[] {
  const number = (name: string, of: (row: KeyUsage) => number): Column<KeyUsage> => ({
    name,
    isNumber: true,
    cell: (row) => count(of(row)),
  });
  return [
    {
      name: 'Key',
      cell: ({ key }) => (
        <a href={hashOf({ view: 'usage', query: { key: key.id, days } })}>
          {key.name === undefined ? 'without a key' : <SafeText text={key.name} most={60} />}
        </a>
      ),
    },
    { name: 'Tier', cell: ({ key }) => (key.name === undefined ? NONE : <TierMark tier={key.tier} />) },
    number('Requests', (row) => row.requests),
    number('Failed', (row) => row.errors),
    number('Prompt tokens', (row) => row.prompt),
    {
      name: 'Cached',
      isNumber: true,
      cell: ({ prompt, cached }) => (prompt === 0 ? NONE : percent(cached / prompt)),
    },
    number('Answer tokens', (row) => row.answer),
    {
      name: 'Tokens today',
      isNumber: true,
      cell: ({ today, key: { limits } }) =>
        limits.dailyTokens === undefined ? count(today) : `${count(today)} of ${count(limits.dailyTokens)}`,
    },
  ];
}
