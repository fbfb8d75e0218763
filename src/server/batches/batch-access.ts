// Batches of a key, whichever protocol asks: created, found and cancelled.

import type { BatchRecord, NewBatch } from '../../store/batch-record.ts';
import type { BatchStore } from '../../store/batch-store.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, fromStore } from '../http/errors.ts';

const MOST_OPEN = 64;
const WINDOW_MS = 86_400_000;

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('batches', action);

export function storeOf({ batches }: ServerContext): BatchStore {
  if (batches !== undefined) return batches.store;
  throw new ApiError(501, 'this server keeps no batches', { code: 'no_batch_store' });
}

export async function createBatch(
  context: ServerContext,
  keyId: string,
  batch: Pick<NewBatch, 'inputFileId' | 'endpoint' | 'metadata'> & Partial<Pick<NewBatch, 'outputSeconds'>>,
): Promise<BatchRecord> {
  const store = storeOf(context);
  if ((await explained(() => store.countOpen(keyId))) >= MOST_OPEN) {
    const message = `the key has ${MOST_OPEN} batches that have not ended, and cannot have more`;
    throw new ApiError(429, message, { code: 'too_many_batches', headers: { 'retry-after': '60' } });
  }
  const nowMs = await explained(() => store.nowMs());
  const { outputSeconds } = batch;
  return explained(() =>
    store.create(keyId, { ...batch, outputSeconds, expiresMs: nowMs + WINDOW_MS }, nowMs),
  );
}

/** `keyId`: undefined for any key. `endpoint`: only a batch of that one. */
export async function findBatch(
  context: ServerContext,
  keyId: string | undefined,
  id: string,
  endpoint?: string,
): Promise<BatchRecord> {
  const batch = await explained(() => storeOf(context).find(keyId, id));
  if (batch !== undefined && (endpoint ?? batch.endpoint) === batch.endpoint) return batch;
  const message = `there is no batch '${id.slice(0, 128)}'`;
  throw new ApiError(404, message, { param: 'id', code: 'batch_not_found' });
}

/** `keyId`: undefined for any key. */
export async function cancelBatch(
  context: ServerContext,
  keyId: string | undefined,
  id: string,
): Promise<BatchRecord> {
  const store = storeOf(context);
  const cancelled = await explained(async () => store.cancel(id, await store.nowMs()));
  const batch = await findBatch(context, keyId, id);
  if (cancelled || batch.state === 'cancelling') return batch;
  throw new ApiError(400, `the batch '${id}' is ${batch.state}, and cannot be cancelled any more`, {
    code: 'not_running',
  });
}
