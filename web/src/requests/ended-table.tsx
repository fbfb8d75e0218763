// Requests that ended, a row each.

import type { EndedRequest } from '../../../src/server/live/live-event.ts';
import { Headings } from '../shell/headings.tsx';
import { hashOf } from '../shell/route.ts';
import { ScrollBox } from '../shell/scroll-box.tsx';
import { TierMark } from '../shell/tier-mark.tsx';
import { count, duration, percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

export interface EndedTableProps {
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
