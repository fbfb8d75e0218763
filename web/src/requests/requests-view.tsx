// Requests of late: everybody's for administrators, their own for others.

import type { RequestBrief } from '../../../src/server/live/live-event.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Problem } from '../shell/problem.tsx';
import { EndedTable } from './ended-table.tsx';

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
        {answer !== undefined && requests.length === 0 && (
          <p class="empty">Nobody has asked for anything yet.</p>
        )}
      </section>
    </>
  );
}
