// /v1/batches: creates, reads, lists and cancels batches. Each key sees only its own.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { BatchRecord } from '../../store/batch-record.ts';
import type { BatchStore } from '../../store/batch-store.ts';
import type { ServerContext } from '../context.ts';
import { INPUT_PURPOSE } from '../files/file-object.ts';
import { fileNotFound, filesOf } from '../files/routes.ts';
import { ApiError, badRequest, fromStore } from '../http/errors.ts';
import { listOf, listSchema } from '../http/list-page.ts';
import { parseBody, readBody } from '../http/parse-body.ts';
import { callerOf } from '../request/auth.ts';
import { idOf, type Route } from '../route.ts';
import {
  batchObject,
  batchPageRules,
  batchSchema,
  DEFAULT_BATCH_PAGE,
  newBatchRules,
  newBatchSchema,
  WINDOW_MS,
} from './batch-object.ts';
import type { BatchRunner } from './batch-runner.ts';

const MOST_OPEN = 64;

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('batches', action);

export function batchRoutes(
  context: ServerContext,
  runner: Pick<BatchRunner, 'wake'> | undefined,
): readonly Route[] {
  const andWake = (batch: BatchRecord) => {
    runner?.wake();
    return batchObject(batch);
  };
  return [
    {
      method: 'POST',
      url: '/v1/batches',
      access: 'key',
      summary: 'Have the requests of a file answered when there is time',
      body: newBatchSchema,
      answer: batchSchema,
      handler: async (request, reply) => andWake(await create(context, request, reply)),
    },
    {
      method: 'GET',
      url: '/v1/batches',
      access: 'key',
      summary: "List the key's batches; after, limit, order",
      answer: listSchema(batchSchema),
      handler: (request) => list(context, request),
    },
    {
      method: 'GET',
      url: '/v1/batches/:id',
      access: 'key',
      summary: 'A batch, and how far it is',
      answer: batchSchema,
      handler: async (request) => batchObject(await find(context, request)),
    },
    {
      method: 'POST',
      url: '/v1/batches/:id/cancel',
      access: 'key',
      summary: 'Call a batch off; what was done stays',
      answer: batchSchema,
      handler: async (request) => andWake(await cancel(context, request)),
    },
  ];
}

async function create(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<BatchRecord> {
  const body = readBody(newBatchRules, request, reply);
  const { input_file_id: inputFileId, endpoint, metadata } = body;
  const { keyId } = callerOf(request);
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
  const batch = { inputFileId, endpoint, metadata, outputSeconds, expiresMs: nowMs + WINDOW_MS };
  return explained(() => storeOf(context).create(keyId, batch, nowMs));
}

async function list(context: ServerContext, request: FastifyRequest): Promise<object> {
  const { body: query } = parseBody(batchPageRules, request.query);
  const { limit = DEFAULT_BATCH_PAGE, order = 'desc', after } = query;
  const { keyId } = callerOf(request);
  return listOf(await explained(() => storeOf(context).list(keyId, { limit, order, after })), batchObject);
}

async function cancel(context: ServerContext, request: FastifyRequest): Promise<BatchRecord> {
  const { id } = await find(context, request);
  const cancelled = await explained(() => storeOf(context).cancel(id, Date.now()));
  const batch = await find(context, request);
  if (cancelled || batch.state === 'cancelling') return batch;
  throw new ApiError(400, `the batch '${id}' is ${batch.state}, and cannot be cancelled any more`, {
    code: 'not_running',
  });
}

function storeOf({ batches }: ServerContext): BatchStore {
  if (batches !== undefined) return batches.store;
  throw new ApiError(501, 'this server keeps no batches', { code: 'no_batch_store' });
}

async function find(context: ServerContext, request: FastifyRequest): Promise<BatchRecord> {
  const id = idOf(request);
  const { keyId } = callerOf(request);
  const batch = await explained(() => storeOf(context).find(keyId, id));
  if (batch !== undefined) return batch;
  const message = `there is no batch '${id.slice(0, 128)}'`;
  throw new ApiError(404, message, { param: 'id', code: 'batch_not_found' });
}
