// The keys: their tiers and limits.

import { useState } from 'preact/hooks';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Confirm } from '../shell/confirm.tsx';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { TierMark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { count, day } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { NewKeyForm } from './new-key-form.tsx';
import type { WireKey } from './wire-key.ts';

interface KeysViewProps {
  readonly server: Server;
  /** Called with the first key, where there was none. */
  readonly onFirstKey: ((key: string) => void) | undefined;
}

export function KeysView({ server, onFirstKey }: KeysViewProps) {
  const { answer, problem, refresh } = usePolled<{ data: readonly WireKey[] }>(server, 'admin/keys');
  const [doomed, setDoomed] = useState<WireKey>();
  const [failure, setFailure] = useState<string>();
  const revoke = async ({ id }: WireKey) => {
    setFailure(undefined);
    try {
      await server.ask(`admin/keys/${encodeURIComponent(id)}`, { method: 'DELETE' });
    } catch (error) {
      setFailure(wordsFor(error));
    }
    refresh();
  };
  const keys = answer?.data ?? [];
  return (
    <>
      <h1>Keys</h1>
      <Problem text={failure ?? problem} />
      <NewKeyForm server={server} onMade={refresh} onFirstKey={keys.length === 0 ? onFirstKey : undefined} />
      <section class="panel">
        <DataTable
          caption="Keys of this server"
          columns={columnsOf(setDoomed)}
          rows={keys}
          keyOf={({ id }) => id}
          isGone={({ revoked }) => revoked !== null}
        />
        {answer !== undefined && keys.length === 0 && (
          <p class="empty">There are no keys: requests from this machine are served without.</p>
        )}
      </section>
      {doomed && (
        <Confirm
          title="Revoke this key?"
          action="Revoke"
          onConfirm={() => void revoke(doomed)}
          onClose={() => setDoomed(undefined)}
        >
          <p>
            Requests with <SafeText text={doomed.name} /> are not served any more. That cannot be taken back.
          </p>
        </Confirm>
      )}
    </>
  );
}

function columnsOf(onRevoke: (record: WireKey) => void): readonly Column<WireKey>[] {
  const limit = (name: string, of: (record: WireKey) => number | null): Column<WireKey> => ({
    name,
    isNumber: true,
    cell: (record) => {
      const value = of(record);
      return value === null ? NONE : count(value);
    },
  });
  return [
    {
      name: 'Name',
      cell: ({ name, admin }) => (
        <>
          <SafeText text={name} most={60} />
          {admin && <span class="badge">admin</span>}
        </>
      ),
    },
    { name: 'Begins', cell: ({ prefix }) => <code>{prefix}…</code> },
    { name: 'Tier', cell: ({ tier }) => <TierMark tier={tier} /> },
    limit('Requests/min', (record) => record.requests_per_minute),
    limit('Tokens/min', (record) => record.tokens_per_minute),
    limit('At once', (record) => record.max_concurrent),
    limit('Tokens/day', (record) => record.daily_tokens),
    { name: 'KV part', isNumber: true, cell: ({ kv_share: share }) => share ?? NONE },
    { name: 'Made', cell: ({ created }) => day(1000 * created) },
    {
      name: 'Actions',
      isHidden: true,
      cell: (record) => (
        <>
          <a href={hashOf({ view: 'usage', query: { key: record.id } })}>
            Usage<span class="offscreen"> of {record.name}</span>
          </a>{' '}
          {record.revoked === null ? (
            <button type="button" class="small danger" onClick={() => onRevoke(record)}>
              Revoke<span class="offscreen"> {record.name}</span>
            </button>
          ) : (
            <span class="quiet">revoked {day(1000 * record.revoked)}</span>
          )}
        </>
      ),
    },
  ];
}
