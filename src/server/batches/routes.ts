// /v1/batches: makes them, gives, lists and calls them off. Each key has its own, and sees no other.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { BatchRecord } from '../../store/batch-record.ts';
import type { BatchStore } from '../../store/batch-store.ts';
import type { ServerContext } from '../context.ts';
import { INPUT_PURPOSE } from '../files/file-object.ts';
import { fileNotFound, filesOf } from '../files/routes.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { listOf } from '../http/list-page.ts';
import { parseBody, unknownWarning } from '../http/parse-body.ts';
import { warn } from '../http/warn.ts';
import type { Caller } from '../request/auth.ts';
import { fromStore } from '../request/from-store.ts';
import { batchObject, batchPageRules, DEFAULT_BATCH_PAGE, newBatchRules, WINDOW_MS } from './batch-object.ts';
import type { BatchRunner } from './batch-runner.ts';

/** Of one key. */
const MOST_OPEN = 64;

type ById = { Params: { id: string } };

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('batches', action);

/** `runner`: whoever is told of what there is to do. */
export function batchRoutes(
  app: FastifyInstance,
  context: ServerContext,
  runner: Pick<BatchRunner, 'wake'> | undefined,
): void {
  app.post('/v1/batches', async (request, reply) => {
    const { body, unknown } = parseBody(newBatchRules, request.body);
    warn(reply, unknown.length > 0 ? [unknownWarning(unknown)] : []);
    const { input_file_id: inputFileId, endpoint, metadata } = body;
    const { keyId } = request.caller as Caller;
    const file = await explained(() => filesOf(context).find(keyId, inputFileId));
    if (file === undefined) throw fileNotFound(inputFileId, 'input_file_id');
    if (file.purpose !== INPUT_PURPOSE) {
      throw badRequest('input_file_id', `must be a file of the purpose ${INPUT_PURPOSE}`);
    }
    if ((await explained(() => storeOf(context).countOpen(keyId))) >= MOST_OPEN) {
      const message = `the key has ${MOST_OPEN} batches that have not ended, and cannot have more`;
      throw new ApiError(429, message, { code: 'too_many_batches', headers: { 'retry-after': '60' } });
    }
    const nowMs = Date.now();
    const outputSeconds = body.output_expires_after?.seconds;
    const order = { inputFileId, endpoint, metadata, outputSeconds, expiresMs: nowMs + WINDOW_MS };
    const batch = await explained(() => storeOf(context).create(keyId, order, nowMs));
    runner?.wake();
    return batchObject(batch);
  });
  app.get('/v1/batches', async (request) => {
    const { body: query } = parseBody(batchPageRules, request.query);
    const { limit = DEFAULT_BATCH_PAGE, order = 'desc', after } = query;
    const { keyId } = request.caller as Caller;
    return listOf(await explained(() => storeOf(context).list(keyId, { limit, order, after })), batchObject);
  });
  app.get<ById>('/v1/batches/:id', async (request) => batchObject(await find(context, request)));
  app.post<ById>('/v1/batches/:id/cancel', async (request) => {
    const { id } = await find(context, request);
    const cancelled = await explained(() => storeOf(context).cancel(id, Date.now()));
    const batch = await find(context, request);
    if (!cancelled && batch.state !== 'cancelling') {
      throw new ApiError(400, `the batch '${id}' is ${batch.state}, and cannot be cancelled any more`, {
        code: 'not_running',
      });
    }
    runner?.wake();
    return batchObject(batch);
  });
}

function storeOf({ batches }: ServerContext): BatchStore {
  if (batches !== undefined) return batches.store;
  throw new ApiError(501, 'this server keeps no batches', { code: 'no_batch_store' });
}

async function find(context: ServerContext, request: FastifyRequest<ById>): Promise<BatchRecord> {
  const { id } = request.params;
  const { keyId } = request.caller as Caller;
  const batch = await explained(() => storeOf(context).find(keyId, id));
  if (batch !== undefined) return batch;
  const message = `there is no batch '${id.slice(0, 128)}'`;
  throw new ApiError(404, message, { param: 'id', code: 'batch_not_found' });
}
