// The log of requests: all of them for administrators, their own for others; refusals, too. What it is filtered by stands in the
// address, so that it can be shared.

import type { RefusedRequest, RequestBrief } from '../../../src/server/live/live-event.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { TierMark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { clock, count, duration, percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { ModelOf, RequestLink } from './ended-table.tsx';

const ASK_EVERY_MS = 3000;

type Outcome = 'running' | 'ok' | 'failed' | 'refused';

interface Entry {
  readonly id: string;
  readonly atMs: number;
  readonly outcome: Outcome;
  readonly keyName: string | undefined;
  readonly request?: RequestBrief;
  readonly refusal?: RefusedRequest;
}

const outcomes = {
  '': 'All',
  running: 'Running',
  ok: 'Answered',
  failed: 'Failed',
  refused: 'Refused',
} as const;

interface RequestsViewProps {
  readonly server: Server;
  readonly admin: boolean;
  readonly query: Readonly<Record<string, string>>;
}

export function RequestsView({ server, admin, query }: RequestsViewProps) {
  const { answer, problem } = usePolled<{
    data: readonly RequestBrief[];
    refusals?: readonly RefusedRequest[];
  }>(server, 'requests', ASK_EVERY_MS);
  const { outcome = '', q: sought = '' } = query;
  const filter = (change: Readonly<Record<string, string>>) => {
    // Every letter would be a step back in the history.
    history.replaceState(null, '', hashOf({ view: 'requests', query: { ...query, ...change } }));
    dispatchEvent(new HashChangeEvent('hashchange'));
  };
  const all = entriesOf(answer?.data ?? [], answer?.refusals ?? []);
  const shown = all.filter((one) => (outcome === '' || one.outcome === outcome) && isAbout(one, sought));
  return (
    <>
      <h1>Requests</h1>
      <p class="quiet">{admin ? 'The last ones of every key' : 'Your last ones'}, the newest first.</p>
      <Problem text={problem} />
      <section class="panel">
        <search class="row filters">
          <label class="inline">
            <span class="offscreen">Outcome</span>
            <select value={outcome} onChange={(event) => filter({ outcome: event.currentTarget.value })}>
              {Object.entries(outcomes).map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <input
            type="search"
            aria-label="Search requests"
            placeholder={admin ? 'Key, model, id or reason' : 'Model, id or reason'}
            value={sought}
            onInput={(event) => filter({ q: event.currentTarget.value })}
          />
          <span class="quiet" role="status">
            {count(shown.length)} of {count(all.length)}
          </span>
        </search>
        <DataTable
          caption="Requests, the newest first"
          columns={admin ? columns : columns.filter(({ name }) => name !== 'Key')}
          rows={shown}
          keyOf={({ id, atMs }) => `${id} ${atMs}`}
        />
        {answer !== undefined && all.length === 0 && <p class="empty">There are no requests yet.</p>}
      </section>
    </>
  );
}

const columns: readonly Column<Entry>[] = [
  {
    name: 'Request',
    cell: ({ request, id }) => <RequestLink id={id} isTraced={request !== undefined} isShort />,
  },
  { name: 'Time', cell: ({ atMs }) => <time>{clock(atMs)}</time> },
  {
    name: 'Key',
    cell: ({ keyName }) => (keyName === undefined ? NONE : <SafeText text={keyName} most={24} />),
  },
  {
    name: 'Kind',
    cell: ({ request, refusal }) => (
      <span class="route-name">
        <SafeText text={request?.kind ?? refusal?.route ?? ''} most={60} />
      </span>
    ),
  },
  {
    name: 'Model',
    cell: ({ request }) => (request ? <ModelOf {...request} /> : NONE),
  },
  { name: 'Tier', cell: ({ request }) => (request ? <TierMark tier={request.tier} /> : NONE) },
  {
    name: 'Status',
    cell: ({ outcome, request, refusal }) => (
      <span class={refusal ? 'outcome sentence' : 'outcome'} data-outcome={outcome}>
        {refusal ? (
          <>
            {refusal.status} <SafeText text={refusal.reason} most={400} />
          </>
        ) : (
          <SafeText text={request?.outcome ?? ''} most={40} />
        )}
      </span>
    ),
  },
  { name: 'Prompt', isNumber: true, cell: ({ request }) => (request ? count(request.promptTokens) : NONE) },
  {
    name: 'Cached',
    isNumber: true,
    cell: ({ request }) =>
      request?.promptTokens ? percent(request.cachedTokens / request.promptTokens) : NONE,
  },
  {
    name: 'Answer',
    isNumber: true,
    cell: ({ request }) => (request ? count(request.generatedTokens) : NONE),
  },
  {
    name: 'First token',
    isNumber: true,
    cell: ({ request }) => (request?.firstTokenMs === undefined ? NONE : duration(request.firstTokenMs)),
  },
  { name: 'In all', isNumber: true, cell: ({ request }) => (request ? duration(request.totalMs) : NONE) },
];

function entriesOf(requests: readonly RequestBrief[], refusals: readonly RefusedRequest[]): Entry[] {
  const entries = [
    ...requests.map((request): Entry => {
      const { requestId: id, arrivedMs: atMs, keyName } = request;
      return { id, atMs, keyName, outcome: outcomeOf(request), request };
    }),
    ...refusals.map((refusal): Entry => {
      const { requestId: id, atMs, keyName } = refusal;
      return { id, atMs, keyName, outcome: 'refused', refusal };
    }),
  ];
  return entries.sort((a, b) => b.atMs - a.atMs);
}

function outcomeOf({ running, outcome }: RequestBrief): Outcome {
  if (running) return 'running';
  return outcome === 'ok' ? 'ok' : 'failed';
}

function isAbout({ id, keyName, request, refusal }: Entry, sought: string): boolean {
  const text = [
    id,
    keyName,
    request?.model,
    request?.kind,
    request?.outcome,
    refusal?.route,
    refusal?.reason,
  ];
  const all = text.join(' ').toLowerCase();
  return sought
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}
