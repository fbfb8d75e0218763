// Requests that have ended, as the board shows them.

import type { EndedRequest, FallbackReason, UpstreamUse } from '../../../src/server/live/live-event.ts';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { TierMark } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { count, duration, percent, shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

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

interface RequestLinkProps {
  readonly id: string;
  /** What was refused has no trace. */
  readonly isTraced?: boolean;
  readonly isShort?: boolean;
}

export function RequestLink({ id, isTraced = true, isShort = false }: RequestLinkProps) {
  const text = (
    <span title={isShort ? id : undefined}>
      <SafeText text={isShort ? shortId(id) : id} most={30} />
    </span>
  );
  return isTraced ? <a href={hashOf({ view: 'requests', id })}>{text}</a> : text;
}

export function ModelOf({ model, upstream }: Pick<EndedRequest, 'model' | 'upstream'>) {
  return (
    <>
      <SafeText text={model} most={40} />
      {upstream !== undefined && (
        <div class="quiet">
          <SafeText text={upstreamWords(upstream)} most={100} />
        </div>
      )}
    </>
  );
}

const columns: readonly Column<EndedRequest>[] = [
  { name: 'Request', cell: ({ requestId }) => <RequestLink id={requestId} /> },
  { name: 'Model', cell: (request) => <ModelOf {...request} /> },
  { name: 'Tier', cell: ({ tier }) => <TierMark tier={tier} /> },
  { name: 'Outcome', cell: ({ outcome }) => <SafeText text={outcome} most={40} /> },
  { name: 'Prompt', isNumber: true, cell: ({ promptTokens }) => count(promptTokens) },
  {
    name: 'Cached',
    isNumber: true,
    cell: ({ promptTokens, cachedTokens }) =>
      promptTokens === 0 ? NONE : percent(cachedTokens / promptTokens),
  },
  { name: 'Answer', isNumber: true, cell: ({ generatedTokens }) => count(generatedTokens) },
  {
    name: 'First token',
    isNumber: true,
    cell: ({ firstTokenMs }) => (firstTokenMs === undefined ? NONE : duration(firstTokenMs)),
  },
  { name: 'In all', isNumber: true, cell: ({ totalMs }) => duration(totalMs) },
];

export function EndedTable({ requests }: { readonly requests: readonly EndedRequest[] }) {
  return (
    <DataTable
      caption="Ended requests, the newest first"
      columns={columns}
      rows={requests}
      keyOf={({ requestId }) => requestId}
      isCut
    />
  );
}
