// Batches: how far each is, what came of it, and how to make one. Administrators see those of all keys.

import { useEffect, useRef, useState } from 'preact/hooks';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Confirm } from '../shell/confirm.tsx';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { saveFile } from '../shell/save-file.ts';
import { shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import {
  canCancel,
  Files,
  isOpen,
  Progress,
  type ShownBatch,
  Status,
  type StoredFile,
  Times,
} from './batch-cells.tsx';
import { BatchExample } from './batch-example.tsx';
import './batches.css';

const PAGE = 20;
const RUNNING_MS = 1000;
const IDLE_MS = 5000;

interface BatchesViewProps {
  readonly server: Server;
  /** Of all keys, not of the reader's own. */
  readonly admin: boolean;
  /** Whether clients, and so their files, are served at this address. */
  readonly hasFiles: boolean;
  readonly query: Readonly<Record<string, string>>;
}

interface BatchPage {
  readonly data: readonly ShownBatch[];
  readonly last_id: string | null;
  readonly has_more: boolean;
}

export function BatchesView({ server, admin, hasFiles, query: { after } }: BatchesViewProps) {
  const route = admin ? 'admin/batches' : 'v1/batches';
  const from = after === undefined ? '' : `&after=${encodeURIComponent(after)}`;
  const [everyMs, setEveryMs] = useState(RUNNING_MS);
  const { answer, problem, refresh } = usePolled<BatchPage>(server, `${route}?limit=${PAGE}${from}`, everyMs);
  const [failure, setFailure] = useState<string>();
  const [doomed, setDoomed] = useState<ShownBatch>();
  const batches = answer?.data ?? [];
  const open = batches.filter(isOpen).length;
  useEffect(() => setEveryMs(open > 0 ? RUNNING_MS : IDLE_MS), [open]);
  const files = useFiles(server, hasFiles, batches);
  const attempt = async (work: () => Promise<unknown>) => {
    setFailure(undefined);
    try {
      await work();
    } catch (error) {
      setFailure(wordsFor(error));
    }
    refresh();
  };
  const save = ({ id, filename }: StoredFile) =>
    attempt(async () => saveFile(filename, await (await server.ask(`v1/files/${id}/content`)).blob()));
  return (
    <>
      <h1>Batches</h1>
      <Problem text={failure ?? problem} />
      {answer !== undefined && batches.length === 0 && after === undefined ? (
        <section class="panel begin" aria-labelledby="begin-title">
          <h2 id="begin-title">{admin ? 'Nobody has made a batch yet' : 'You have made no batch yet'}</h2>
          {hasFiles && <BatchExample server={server} />}
        </section>
      ) : (
        <>
          <p class="quiet">
            {admin
              ? 'Of all keys, the newest first. Files are for the key that asked alone.'
              : 'The newest first.'}
          </p>
          <section class="panel">
            <DataTable
              caption="Batches"
              columns={columnsOf({ admin, files, onSave: (file) => void save(file), onCancel: setDoomed })}
              rows={batches}
              keyOf={({ id }) => id}
            />
            <PageLinks after={after} page={answer} />
          </section>
          {hasFiles && (
            <details class="panel">
              <summary>How to make one</summary>
              <div class="begin">
                <BatchExample server={server} />
              </div>
            </details>
          )}
        </>
      )}
      {doomed && (
        <Confirm
          title="Cancel this batch?"
          action="Cancel the batch"
          dismissal="Keep it"
          onConfirm={() => void attempt(() => server.ask(`${route}/${doomed.id}/cancel`, { method: 'POST' }))}
          onClose={() => setDoomed(undefined)}
        >
          <p>Requests that run are ended at once. What was answered stays.</p>
        </Confirm>
      )}
    </>
  );
}

/** Asked for again when a batch comes or ends: then its files come, too. */
function useFiles(
  server: Server,
  hasFiles: boolean,
  batches: readonly ShownBatch[],
): ReadonlyMap<string, StoredFile> {
  const { answer, refresh } = usePolled<{ data: readonly StoredFile[] }>(
    server,
    hasFiles ? 'v1/files' : undefined,
  );
  const known = batches.map(({ id, status }) => `${id} ${status}`).join();
  const asked = useRef(known);
  useEffect(() => {
    if (asked.current !== known) refresh();
    asked.current = known;
  }, [known]);
  return new Map(answer?.data.map((file) => [file.id, file]));
}

interface ListActions {
  readonly admin: boolean;
  readonly files: ReadonlyMap<string, StoredFile>;
  readonly onSave: (file: StoredFile) => void;
  readonly onCancel: (batch: ShownBatch) => void;
}

function columnsOf({ admin, files, onSave, onCancel }: ListActions): readonly Column<ShownBatch>[] {
  const ofKey: Column<ShownBatch> = {
    name: 'Key',
    cell: ({ key_name: name }) => (name == null ? NONE : <SafeText text={name} most={24} />),
  };
  return [
    {
      name: 'Batch',
      cell: ({ id, endpoint, metadata }) => (
        <>
          <span title={id}>{shortId(id)}</span>
          <div class="quiet">{endpoint}</div>
          {metadata !== null && (
            <div class="quiet">
              <SafeText
                text={Object.entries(metadata)
                  .map(([name, value]) => `${name}: ${value}`)
                  .join(', ')}
                most={80}
              />
            </div>
          )}
        </>
      ),
    },
    ...(admin ? [ofKey] : []),
    { name: 'Status', cell: (batch) => <Status batch={batch} /> },
    {
      name: 'Progress',
      cell: (batch) => (batch.request_counts.total === 0 ? NONE : <Progress batch={batch} />),
    },
    { name: 'Made', cell: (batch) => <Times batch={batch} /> },
    { name: 'Files', cell: (batch) => <Files batch={batch} files={files} onSave={onSave} /> },
    {
      name: 'Actions',
      isHidden: true,
      cell: (batch) =>
        canCancel(batch) && (
          <button type="button" class="small danger" onClick={() => onCancel(batch)}>
            Cancel<span class="offscreen"> {batch.id}</span>
          </button>
        ),
    },
  ];
}

function PageLinks({
  after,
  page,
}: {
  readonly after: string | undefined;
  readonly page: BatchPage | undefined;
}) {
  const last = page?.last_id;
  if (after === undefined && page?.has_more !== true) return null;
  return (
    <nav class="row page-links" aria-label="Pages">
      {after !== undefined && <a href={hashOf({ view: 'batches' })}>Newest</a>}
      {page?.has_more === true && last != null && (
        <a href={hashOf({ view: 'batches', query: { after: last } })}>Older</a>
      )}
    </nav>
  );
}
