// What the schedulers of a fleet's workers do, as a gateway sees it: steps and blocks, of the busiest and of all together.

import { useState } from 'preact/hooks';
import type { FleetWork, WorkerWork } from '../../../src/fleet/gateway/fleet-control.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { type Column, DataTable } from '../shell/data-table.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { count, counted, rate } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

/** Workers publish twice a second. */
const ASK_EVERY_MS = 1000;
const LISTED = 16;

export function WorkersPanel({ server }: { readonly server: Server }) {
  const [limit, setLimit] = useState(LISTED);
  const { answer, problem } = usePolled<FleetWork>(server, `admin/fleet/work?limit=${limit}`, ASK_EVERY_MS);
  const listed = answer?.workers.length ?? 0;
  return (
    <section class="panel" aria-labelledby="workers-title">
      <h2 id="workers-title">Workers</h2>
      <Problem text={problem} />
      {answer?.count === 0 && (
        <p class="empty">
          No worker has loaded a model: the first request, or a placement in the{' '}
          <a href={hashOf({ view: 'fleet' })}>Fleet</a> view, loads one.
        </p>
      )}
      {answer && answer.count > 0 && (
        <>
          <p class="quiet">{sentence(answer)}</p>
          <DataTable
            caption="Steps and blocks of each worker"
            columns={columns}
            rows={answer.workers}
            keyOf={({ node, model }) => `${node} ${model}`}
          />
          {(answer.count > listed || limit > LISTED) && (
            <button
              type="button"
              class="small"
              onClick={() => setLimit(answer.count > listed ? answer.count : LISTED)}
            >
              {answer.count > listed ? `Show all ${count(answer.count)}` : `Show the ${LISTED} busiest`}
            </button>
          )}
        </>
      )}
    </section>
  );
}

function sentence({ all, count: workers }: FleetWork): string {
  const { steps, blocks, running, waiting } = all;
  return [
    `${counted(workers, 'engine')} together: ${amount(steps.stepsPerSecond)} steps/s`,
    `${amount(steps.sequencesPerStep)} sequences a step`,
    `${count(running)} running, ${count(waiting)} waiting`,
    `${count(blocks.used)} of ${counted(blocks.limit, 'block')} used`,
  ].join(' · ');
}

const columns: readonly Column<WorkerWork>[] = [
  { name: 'Worker', cell: ({ node }) => <SafeText text={node} most={60} /> },
  { name: 'Model', cell: ({ model }) => <SafeText text={model} most={60} /> },
  { name: 'Running', isNumber: true, cell: ({ running }) => count(running) },
  { name: 'Waiting', isNumber: true, cell: ({ waiting }) => count(waiting) },
  { name: 'Steps/s', isNumber: true, cell: ({ steps }) => amount(steps.stepsPerSecond) },
  { name: 'Sequences/step', isNumber: true, cell: ({ steps }) => amount(steps.sequencesPerStep) },
  { name: 'Tokens/step', isNumber: true, cell: ({ steps }) => amount(steps.tokensPerStep) },
  { name: 'Blocks in use', cell: (work) => <Blocks work={work} /> },
  { name: 'Shared', isNumber: true, cell: ({ blocks }) => count(blocks.shared) },
  { name: 'Cached', isNumber: true, cell: ({ blocks }) => count(blocks.cached) },
];

function amount(value: number): string {
  return value === 0 ? '0' : rate(value);
}

function Blocks({ work: { node, blocks } }: { readonly work: WorkerWork }) {
  const { limit, used } = blocks;
  return (
    <span class="worker-blocks">
      <meter min={0} max={Math.max(1, limit)} value={used} aria-label={`Blocks in use on ${node}`} />
      {count(used)} of {count(limit)}
    </span>
  );
}
