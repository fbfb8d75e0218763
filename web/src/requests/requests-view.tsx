// Recent requests: all of them for administrators, their own for others.

import type {
  EndedRequest,
  FallbackReason,
  RequestBrief,
  UpstreamUse,
} from '../../../src/server/live/live-event.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { TierMark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { Headings, ScrollBox } from '../shell/table.tsx';
import { count, duration, percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

const ASK_EVERY_MS = 3000;

export function RequestsView({ server, admin }: { readonly server: Server; readonly admin: boolean }) {
  const { answer, problem } = usePolled<{ data: readonly RequestBrief[] }>(server, 'requests', ASK_EVERY_MS);
  const requests = answer?.data ?? [];
  return (
    <>
      <h1>Requests</h1>
      <p class="quiet">{admin ? 'The last ones of every key' : 'Your last ones'}, the newest first.</p>
      <Problem text={problem} />
      <section class="panel">
        <EndedTable requests={requests} />
        {answer !== undefined && requests.length === 0 && <p class="empty">There are no requests yet.</p>}
      </section>
    </>
  );
}

/** Who answered, and why not a model of this server. */
export function upstreamWords({ name, fallback }: UpstreamUse): string {
  const reason = fallback && fallbackWords[fallback.reason];
  return fallback === undefined ? `of ${name}` : `of ${name}, because ${fallback.model} ${reason}`;
}

const fallbackWords: Readonly<Record<FallbackReason, string>> = {
  loading: 'was not loaded',
  'does-not-fit': 'did not fit',
  failed: 'could not be loaded',
  'queue-full': 'had a full queue',
  'long-wait': 'had a long queue',
};

interface EndedTableProps {
  readonly requests: readonly EndedRequest[];
  readonly cut?: boolean;
}

export function EndedTable({ requests, cut = false }: EndedTableProps) {
  return (
    <ScrollBox name="Ended requests" cut={cut}>
      <table class="data">
        <caption class="offscreen">Ended requests, the newest first</caption>
        <Headings
          columns={[
            'Request',
            'Model',
            'Tier',
            'Outcome',
            { number: 'Prompt' },
            { number: 'Cached' },
            { number: 'Answer' },
            { number: 'First token' },
            { number: 'In all' },
          ]}
        />
        <tbody>
          {requests.map((request) => (
            <tr key={request.requestId}>
              <th scope="row">
                <a href={hashOf({ view: 'requests', id: request.requestId })}>
                  <SafeText text={request.requestId} most={30} />
                </a>
              </th>
              <td>
                <SafeText text={request.model} most={40} />
                {request.upstream !== undefined && (
                  <div class="quiet">
                    <SafeText text={upstreamWords(request.upstream)} most={100} />
                  </div>
                )}
              </td>
              <td>
                <TierMark tier={request.tier} />
              </td>
              <td>
                <SafeText text={request.outcome} most={40} />
              </td>
              <td class="number">{count(request.promptTokens)}</td>
              <td class="number">
                {request.promptTokens === 0 ? '–' : percent(request.cachedTokens / request.promptTokens)}
              </td>
              <td class="number">{count(request.generatedTokens)}</td>
              <td class="number nowrap">
                {request.firstTokenMs === undefined ? '–' : duration(request.firstTokenMs)}
              </td>
              <td class="number nowrap">{duration(request.totalMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}
