// Why requests were refused of late, and how often.

import type { RefusalCount } from '../../../src/server/page/usage.ts';
import { type Column, DataTable } from '../shell/data-table.tsx';
import { hashOf } from '../shell/route.ts';
import { clock, count, day } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

export function RefusalsPanel({ refusals }: { readonly refusals: readonly RefusalCount[] }) {
  return (
    <section class="panel" aria-labelledby="refusals-title">
      <div class="row spread">
        <h2 id="refusals-title">Refused of late</h2>
        {refusals.length > 0 && (
          <a href={hashOf({ view: 'requests', query: { outcome: 'refused' } })}>Each of them</a>
        )}
      </div>
      {refusals.length === 0 ? (
        <p class="empty">None of the last requests was refused. Those that were are not charged.</p>
      ) : (
        <DataTable
          caption="Refusals by reason"
          columns={columns}
          rows={refusals}
          keyOf={({ status, code }) => `${status} ${code}`}
        />
      )}
    </section>
  );
}

const columns: readonly Column<RefusalCount>[] = [
  { name: 'Status', cell: ({ status, code }) => `${status}${code === undefined ? '' : ` ${code}`}` },
  { name: 'Times', isNumber: true, cell: ({ count: times }) => count(times) },
  { name: 'Last', cell: ({ lastMs }) => `${day(lastMs)} ${clock(lastMs)}` },
  {
    name: 'Last reason',
    cell: ({ reason }) => (
      <span class="sentence">
        <SafeText text={reason} most={200} />
      </span>
    ),
  },
];
