// A batch of messages and its results as Anthropic's clients see them.

import type { BatchRecord } from '../../store/batch-record.ts';

const COUNT = 'requests';
const INPUT = 'messages_input';

/**
 * A batch knows its lines once it has read them; clients are told from the beginning. The input file is named where this
 * protocol wrote it, and goes with the batch: others are their clients' own.
 */
export function metadataOf(requests: number, inputFileId: string): Readonly<Record<string, string>> {
  return { [COUNT]: String(requests), [INPUT]: inputFileId };
}

export function ownsInput({ inputFileId, metadata }: BatchRecord): boolean {
  return metadata?.[INPUT] === inputFileId;
}

export function batchObject(batch: BatchRecord, origin: string): object {
  const { id, state, createdMs, expiresMs, endedMs, cancellingMs } = batch;
  const isEnded = endedMs !== undefined;
  return {
    id,
    type: 'message_batch',
    processing_status: isEnded ? 'ended' : state === 'cancelling' ? 'canceling' : 'in_progress',
    request_counts: countsOf(batch),
    created_at: timeText(createdMs),
    expires_at: timeText(expiresMs),
    ended_at: isEnded ? timeText(endedMs) : null,
    cancel_initiated_at: cancellingMs === undefined ? null : timeText(cancellingMs),
    archived_at: null,
    results_url: isEnded ? `${origin}/v1/messages/batches/${id}/results` : null,
  };
}

function countsOf({ state, endedMs, total, completed, failed, metadata }: BatchRecord): object {
  const requests = Math.max(total, Number(metadata?.[COUNT] ?? 0));
  if (endedMs === undefined) {
    return { processing: requests, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
  }
  const rest = requests - completed - failed;
  return {
    processing: 0,
    succeeded: completed,
    errored: failed + (state === 'completed' || state === 'failed' ? rest : 0),
    canceled: state === 'cancelled' ? rest : 0,
    expired: state === 'expired' ? rest : 0,
  };
}

interface OutputLine {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: object } | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

export function resultOf({ id, custom_id, response, error }: OutputLine): object {
  if (response !== null) {
    const { status_code: status, body } = response;
    const result = status < 400 ? { type: 'succeeded', message: body } : { type: 'errored', error: body };
    return { custom_id, result };
  }
  if (error?.code === 'batch_expired') return { custom_id, result: { type: 'expired' } };
  if (error?.code === 'batch_cancelled') return { custom_id, result: { type: 'canceled' } };
  const { message = 'the request was not run' } = error ?? {};
  const body = { type: 'error', error: { type: 'api_error', message }, request_id: id };
  return { custom_id, result: { type: 'errored', error: body } };
}

function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
