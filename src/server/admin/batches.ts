// /admin/batches: the batches of all keys, and how far they are. What is in their files is for the key that asked alone.

import type { FastifyRequest } from 'fastify';
import type { BatchRecord } from '../../store/batch-record.ts';
import { cancelBatch, findBatch, storeOf } from '../batches/batch-access.ts';
import {
  type BatchObject,
  batchObject,
  batchPageRules,
  DEFAULT_BATCH_PAGE,
} from '../batches/batch-object.ts';
import type { BatchRunner } from '../batches/batch-runner.ts';
import type { ServerContext } from '../context.ts';
import { listOf } from '../http/list-page.ts';
import { parseBody } from '../http/parse-body.ts';
import { idOf, type Route } from '../route.ts';

/** A batch as an admin sees it. */
export interface ListedBatch extends BatchObject {
  readonly key_id: string;
  /** Null for one that was made without a key. */
  readonly key_name: string | null;
}

export function adminBatchRoutes(
  context: ServerContext,
  runner: Pick<BatchRunner, 'wake'> | undefined,
): readonly Route[] {
  return [
    {
      method: 'GET',
      url: '/admin/batches',
      access: 'admin',
      summary: 'Batches of all keys; after, limit, order',
      handler: (request) => list(context, request),
    },
    {
      method: 'POST',
      url: '/admin/batches/:id/cancel',
      access: 'admin',
      summary: 'Call a batch off, whichever key made it; what was done stays',
      handler: async (request) => {
        const { id } = await findBatch(context, undefined, idOf(request));
        const batch = await cancelBatch(context, undefined, id);
        runner?.wake();
        return (await namesOf(context))(batch);
      },
    },
  ];
}

async function list(context: ServerContext, request: FastifyRequest): Promise<object> {
  const { body: query } = parseBody(batchPageRules, request.query);
  const { limit = DEFAULT_BATCH_PAGE, order = 'desc', after } = query;
  return listOf(await storeOf(context).list(undefined, { limit, order, after }), await namesOf(context));
}

async function namesOf({ keyStore }: ServerContext): Promise<(batch: BatchRecord) => ListedBatch> {
  const names = new Map((await keyStore?.list())?.map(({ id, name }) => [id, name]));
  return (batch) => ({
    ...batchObject(batch),
    key_id: batch.keyId,
    key_name: names.get(batch.keyId) ?? null,
  });
}
