// /v1/batches: creates, reads, lists and cancels batches. Each key sees only its own.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { BatchRecord } from '../../store/batch-record.ts';
import type { ServerContext } from '../context.ts';
import { INPUT_PURPOSE } from '../files/file-object.ts';
import { fileNotFound, filesOf } from '../files/routes.ts';
import { badRequest, fromStore } from '../http/errors.ts';
import { listOf, listSchema } from '../http/list-page.ts';
import { parseBody, readBody } from '../http/parse-body.ts';
import { callerOf } from '../request/auth.ts';
import { idOf, type Route } from '../route.ts';
import { cancelBatch, createBatch, findBatch, storeOf } from './batch-access.ts';
import {
  batchObject,
  batchPageRules,
  batchSchema,
  DEFAULT_BATCH_PAGE,
  newBatchRules,
  newBatchSchema,
} from './batch-object.ts';
import type { BatchRunner } from './batch-runner.ts';

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
      handler: async (request) => {
        const { id, keyId } = await find(context, request);
        return andWake(await cancelBatch(context, keyId, id));
      },
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
  const outputSeconds = body.output_expires_after?.seconds;
  return createBatch(context, keyId, { inputFileId, endpoint, metadata, outputSeconds });
}

async function list(context: ServerContext, request: FastifyRequest): Promise<object> {
  const { body: query } = parseBody(batchPageRules, request.query);
  const { limit = DEFAULT_BATCH_PAGE, order = 'desc', after } = query;
  const { keyId } = callerOf(request);
  return listOf(await explained(() => storeOf(context).list(keyId, { limit, order, after })), batchObject);
}

function find(context: ServerContext, request: FastifyRequest): Promise<BatchRecord> {
  return findBatch(context, callerOf(request).keyId, idOf(request));
}
