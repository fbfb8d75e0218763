// /v1/messages/batches: many messages, answered when there is time. They are batches of this server like any other: their
// requests become an input file, their results are read from its output files.

import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { BatchRecord } from '../../store/batch-record.ts';
import { cancelBatch, createBatch, findBatch, storeOf } from '../batches/batch-access.ts';
import type { BatchRunner } from '../batches/batch-runner.ts';
import { fileLines } from '../batches/file-lines.ts';
import { LineCheck } from '../batches/line-check.ts';
import type { ServerContext } from '../context.ts';
import { expiryOf, INPUT_PURPOSE } from '../files/file-object.ts';
import { noRoom } from '../files/form-upload.ts';
import { filesOf } from '../files/routes.ts';
import { ApiError, badRequest, fromStore } from '../http/errors.ts';
import { parseBody, readBody, rulesFor } from '../http/parse-body.ts';
import { callerOf } from '../request/auth.ts';
import { idOf, type Route } from '../route.ts';
import {
  anthropicErrorSchema,
  deletedBatchSchema,
  messageBatchPageSchema,
  messageBatchSchema,
} from './answers.ts';
import { anthropicError } from './errors.ts';
import { batchObject, metadataOf, ownsInput, resultOf } from './message-batch-object.ts';

export const MESSAGES = '/v1/messages';

const newBatchSchema = z.object({
  requests: z
    .array(z.object({ custom_id: z.string().min(1), params: z.record(z.string(), z.unknown()) }))
    .min(1, 'at least one request is needed')
    .meta({ description: 'Each has a custom_id of its own, and the body of a message as params.' }),
});

const DEFAULT_PAGE = 20;
const LARGEST_PAGE = 1000;

const pageSchema = z.object({
  limit: z.coerce.number().int().min(1).max(LARGEST_PAGE).optional(),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
});

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('batches', action);

export function messageBatchRoutes(
  context: ServerContext,
  runner: Pick<BatchRunner, 'wake'> | undefined,
): readonly Route[] {
  const config = { errorBody: anthropicError, idHeader: 'request-id' };
  const common = { access: 'key', error: anthropicErrorSchema, config } as const;
  const shown = (request: FastifyRequest, batch: BatchRecord) => {
    runner?.wake();
    return batchObject(batch, `${request.protocol}://${request.host}`);
  };
  return [
    {
      ...common,
      method: 'POST',
      url: '/v1/messages/batches',
      summary: 'Have many messages answered when there is time',
      body: newBatchSchema,
      answer: messageBatchSchema,
      handler: async (request, reply) => shown(request, await create(context, request, reply)),
    },
    {
      ...common,
      method: 'GET',
      url: '/v1/messages/batches',
      summary: "List the key's batches of messages; after_id, before_id, limit",
      answer: messageBatchPageSchema,
      handler: async (request) => list(context, request, (batch) => shown(request, batch)),
    },
    {
      ...common,
      method: 'GET',
      url: '/v1/messages/batches/:id',
      summary: 'A batch of messages, and how far it is',
      answer: messageBatchSchema,
      handler: async (request) => shown(request, await find(context, request)),
    },
    {
      ...common,
      method: 'POST',
      url: '/v1/messages/batches/:id/cancel',
      summary: 'Call a batch of messages off; what was done stays',
      answer: messageBatchSchema,
      handler: async (request) => {
        const { id, keyId } = await find(context, request);
        return shown(request, await cancelBatch(context, keyId, id));
      },
    },
    {
      ...common,
      method: 'DELETE',
      url: '/v1/messages/batches/:id',
      summary: 'Delete a batch of messages that has ended, and its results',
      answer: deletedBatchSchema,
      handler: async (request) => remove(context, await find(context, request)),
    },
    {
      ...common,
      method: 'GET',
      url: '/v1/messages/batches/:id/results',
      summary: 'The results of a batch of messages, one a line',
      mediaType: 'application/x-jsonl',
      handler: async (request, reply) => sendResults(context, await find(context, request), reply),
    },
  ];
}

async function create(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<BatchRecord> {
  const { requests } = readBody(rulesFor(newBatchSchema), request, reply);
  const { keyId } = callerOf(request);
  const { maxBatchLines, maxKeyFileBytes: maxKeyBytes, keepFilesMs } = context.settings;
  if (requests.length > maxBatchLines) {
    throw badRequest('requests', `${requests.length} are too many; ${maxBatchLines} are possible`);
  }
  const lines = inputLines(context, requests);
  const files = filesOf(context);
  const nowMs = await explained(() => files.nowMs());
  const file = { purpose: INPUT_PURPOSE, name: 'messages.jsonl', expiresMs: undefined, maxKeyBytes };
  const writer = await explained(() => files.begin(keyId, file, nowMs));
  try {
    for (const line of lines)
      if ((await writer.write(Buffer.from(`${line}\n`))) === 'no-room') throw noRoom();
    const written = await writer.complete(INPUT_PURPOSE, expiryOf(nowMs, undefined, keepFilesMs));
    if (written === 'no-room') throw noRoom();
    const metadata = metadataOf(requests.length, writer.id);
    return await createBatch(context, keyId, { inputFileId: writer.id, endpoint: MESSAGES, metadata });
  } catch (error) {
    await writer.discard().catch(() => {});
    throw error;
  }
}

/** Checked at once: a batch of messages has no way to say later that it was wrong as a whole. */
function inputLines(
  { pool }: ServerContext,
  requests: z.infer<typeof newBatchSchema>['requests'],
): readonly string[] {
  const check = new LineCheck(MESSAGES, pool);
  return requests.map(({ custom_id, params }, at) => {
    const text = JSON.stringify({ custom_id, method: 'POST', url: MESSAGES, body: params });
    const checked = check.check({ number: at + 1, text });
    if (checked.ok) return text;
    throw badRequest(`requests[${at}]`, checked.problem.message.replace(/^line \d+: /, ''));
  });
}

async function list(
  context: ServerContext,
  request: FastifyRequest,
  show: (batch: BatchRecord) => object,
): Promise<object> {
  const { body: page } = parseBody(rulesFor(pageSchema), request.query);
  const { limit = DEFAULT_PAGE, after_id: after, before_id: before } = page;
  const { keyId } = callerOf(request);
  // The newest come first; those before one are newer.
  const query = { limit, order: before === undefined ? 'desc' : 'asc', after: before ?? after } as const;
  const found = await explained(() => storeOf(context).list(keyId, query, MESSAGES));
  const rows = before === undefined ? found.rows : found.rows.toReversed();
  return {
    data: rows.map(show),
    has_more: found.hasMore,
    first_id: rows[0]?.id ?? null,
    last_id: rows.at(-1)?.id ?? null,
  };
}

async function find(context: ServerContext, request: FastifyRequest): Promise<BatchRecord> {
  return findBatch(context, callerOf(request).keyId, idOf(request), MESSAGES);
}

async function remove(context: ServerContext, batch: BatchRecord): Promise<object> {
  const { id, keyId, inputFileId, outputFileId, errorFileId } = batch;
  if (!(await explained(() => storeOf(context).remove(keyId, id)))) {
    throw new ApiError(400, `the batch '${id}' has not ended; cancel it first`, { code: 'running' });
  }
  for (const file of [ownsInput(batch) ? inputFileId : undefined, outputFileId, errorFileId]) {
    if (file !== undefined) await explained(() => filesOf(context).remove(keyId, file));
  }
  return { id, type: 'message_batch_deleted' };
}

async function sendResults(
  context: ServerContext,
  { id, state, endedMs, outputFileId, errorFileId, errors }: BatchRecord,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (endedMs === undefined) {
    throw new ApiError(404, `the batch '${id}' has no results before it has ended`, { code: 'not_ended' });
  }
  if (state === 'failed')
    throw new ApiError(404, errors[0]?.message ?? 'the batch failed', { code: 'failed' });
  const files = filesOf(context);
  const results = async function* () {
    for (const file of [outputFileId, errorFileId]) {
      if (file === undefined) continue;
      for await (const line of fileLines(files.chunks(file), Number.POSITIVE_INFINITY)) {
        if ('text' in line) yield `${JSON.stringify(resultOf(JSON.parse(line.text)))}\n`;
      }
    }
  };
  return reply.type('application/x-jsonl').send(Readable.from(results(), { objectMode: false }));
}
