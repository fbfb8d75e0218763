// Cells of the list of batches: how far one is, when, what went wrong and what came of it.

import type { ListedBatch } from '../../../src/server/admin/batches.ts';
import type { BatchObject } from '../../../src/server/batches/batch-object.ts';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { clock, count, day, duration } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

/** With the key's name only where an admin asks. */
export type ShownBatch = BatchObject & Partial<ListedBatch>;

export interface StoredFile {
  readonly id: string;
  readonly filename: string;
  readonly bytes: number;
}

const ended: readonly BatchObject['status'][] = ['completed', 'failed', 'expired', 'cancelled'];
const cancellable: readonly BatchObject['status'][] = ['validating', 'in_progress'];

export const isOpen = ({ status }: ShownBatch) => !ended.includes(status);
export const canCancel = ({ status }: ShownBatch) => cancellable.includes(status);

export function Status({ batch: { status, errors } }: { readonly batch: ShownBatch }) {
  return (
    <>
      <span class="lamp" data-lamp={lamps[status]}>
        {status.replace('_', ' ')}
      </span>
      {errors !== null && <Errors errors={errors.data} />}
    </>
  );
}

const lamps: Readonly<Record<BatchObject['status'], string>> = {
  validating: 'waiting',
  in_progress: 'waiting',
  finalizing: 'waiting',
  cancelling: 'waiting',
  completed: 'live',
  failed: 'failed',
  expired: 'failed',
  cancelled: 'off',
};

type BatchError = NonNullable<BatchObject['errors']>['data'][number];

function Errors({ errors }: { readonly errors: readonly BatchError[] }) {
  const [first, ...rest] = errors;
  if (first === undefined) return null;
  return (
    <div class="batch-errors sentence">
      <ErrorLine error={first} />
      {rest.length > 0 && (
        <details>
          <summary>{count(rest.length)} more</summary>
          {rest.map((error, at) => (
            <ErrorLine key={at} error={error} />
          ))}
        </details>
      )}
    </div>
  );
}

function ErrorLine({ error: { message } }: { readonly error: BatchError }) {
  return (
    <p>
      <SafeText text={message} most={300} />
    </p>
  );
}

export function Progress({ batch }: { readonly batch: ShownBatch }) {
  const { total, completed, failed } = batch.request_counts;
  return (
    <div class="batch-progress">
      {isOpen(batch) && (
        <progress aria-label={`Progress of ${batch.id}`} max={total} value={completed + failed} />
      )}
      <span>
        {count(completed)} of {count(total)} answered{failed > 0 && `, ${count(failed)} failed`}
      </span>
    </div>
  );
}

export function Times({ batch }: { readonly batch: ShownBatch }) {
  const nowSeconds = Date.now() / 1000;
  const { created_at: created, expires_at: expires, in_progress_at: begun } = batch;
  const end = batch.completed_at ?? batch.failed_at ?? batch.expired_at ?? batch.cancelled_at;
  return (
    <>
      {timeOf(created)}
      <div class="quiet">
        {end === null
          ? `${duration(1000 * Math.max(0, expires - nowSeconds))} left`
          : begun === null
            ? `ended ${timeOf(end)}`
            : `took ${end === begun ? 'less than 1 s' : duration(1000 * (end - begun))}`}
      </div>
    </>
  );
}

function timeOf(seconds: number): string {
  const ms = 1000 * seconds;
  return day(ms) === day(Date.now()) ? clock(ms) : `${day(ms)} ${clock(ms)}`;
}

interface FilesProps {
  readonly batch: ShownBatch;
  /** Those that the reader has: another key's cannot be read, and some are deleted. */
  readonly files: ReadonlyMap<string, StoredFile>;
  readonly onSave: (file: StoredFile) => void;
}

export function Files({ batch, files, onSave }: FilesProps) {
  const parts = [
    ['Answers', batch.output_file_id],
    ['Failures', batch.error_file_id],
    ['Input', batch.input_file_id],
  ] as const;
  const found = parts.flatMap(([name, id]) => {
    const file = id === null ? undefined : files.get(id);
    return file === undefined ? [] : [{ name, file }];
  });
  return (
    <div class="batch-files">
      {found.map(({ name, file }) => (
        <button key={name} type="button" class="small" onClick={() => onSave(file)}>
          {name} <span class="quiet">{formatBytes(file.bytes)}</span>
          <span class="offscreen"> of {batch.id}</span>
        </button>
      ))}
    </div>
  );
}
