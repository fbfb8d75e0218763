// The keys: their tiers, limits and usage.

import { useState } from 'preact/hooks';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Confirm } from '../shell/confirm.tsx';
import { TierMark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { Headings, ScrollBox } from '../shell/table.tsx';
import type { ThemeChoice } from '../shell/theme.ts';
import { count, day } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { NewKeyForm } from './new-key-form.tsx';
import { UsagePanel, type WireKey } from './usage-panel.tsx';

interface KeysViewProps {
  readonly server: Server;
  readonly theme: ThemeChoice;
  /** Called with the first key, where there was none. */
  readonly onFirstKey: ((key: string) => void) | undefined;
}

export function KeysView({ server, theme, onFirstKey }: KeysViewProps) {
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
        <ScrollBox name="Keys">
          <table class="data">
            <caption class="offscreen">Keys of this server</caption>
            <Headings
              columns={[
                'Name',
                'Begins',
                'Tier',
                { number: 'Requests/min' },
                { number: 'Tokens/min' },
                { number: 'At once' },
                { number: 'Tokens/day' },
                { number: 'KV part' },
                'Made',
                { hidden: 'Actions' },
              ]}
            />
            <tbody>
              {keys.map((key) => (
                <KeyRow key={key.id} record={key} onRevoke={() => setDoomed(key)} />
              ))}
            </tbody>
          </table>
        </ScrollBox>
        {answer !== undefined && keys.length === 0 && (
          <p class="empty">There are no keys: requests from this machine are served without.</p>
        )}
      </section>
      <UsagePanel server={server} keys={keys} theme={theme} />
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

function KeyRow({ record, onRevoke }: { readonly record: WireKey; readonly onRevoke: () => void }) {
  const limit = (value: number | null) => <td class="number">{value === null ? '–' : count(value)}</td>;
  return (
    <tr class={record.revoked === null ? undefined : 'gone'}>
      <th scope="row">
        <SafeText text={record.name} most={60} />
        {record.admin && <span class="badge">admin</span>}
      </th>
      <td>
        <code>{record.prefix}…</code>
      </td>
      <td>
        <TierMark tier={record.tier} />
      </td>
      {limit(record.requests_per_minute)}
      {limit(record.tokens_per_minute)}
      {limit(record.max_concurrent)}
      {limit(record.daily_tokens)}
      <td class="number">{record.kv_share ?? '–'}</td>
      <td class="nowrap">{day(1000 * record.created)}</td>
      <td class="actions">
        {record.revoked === null ? (
          <button type="button" class="small danger" onClick={onRevoke}>
            Revoke<span class="offscreen"> {record.name}</span>
          </button>
        ) : (
          <span class="quiet">revoked {day(1000 * record.revoked)}</span>
        )}
      </td>
    </tr>
  );
}
