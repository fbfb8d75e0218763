// A batch as clients see it, and what they may ask of batches.

import { z } from 'zod';
import {
  BATCH_STATES,
  type BatchProblem,
  type BatchRecord,
  type BatchState,
} from '../../store/batch-record.ts';
import { expirySchema } from '../files/file-object.ts';
import { pageShape } from '../http/list-page.ts';
import { rulesFor } from '../http/parse-body.ts';
import { ENDPOINTS } from './line-server.ts';

const LARGEST_BATCH_PAGE = 100;
export const DEFAULT_BATCH_PAGE = 20;
const MOST_METADATA = 16;

export const newBatchSchema = z.object({
  input_file_id: z.string(),
  endpoint: z.enum(ENDPOINTS),
  completion_window: z.literal('24h'),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine((given) => Object.keys(given).length <= MOST_METADATA, `has more than ${MOST_METADATA} entries`)
    .optional(),
  output_expires_after: expirySchema.optional(),
});
export const newBatchRules = rulesFor(newBatchSchema);

const batchPageSchema = z.object(pageShape(LARGEST_BATCH_PAGE));
export const batchPageRules = rulesFor(batchPageSchema);

const time = z.int().nullable();

export const batchSchema = z.strictObject({
  id: z.string(),
  object: z.literal('batch'),
  endpoint: z.enum(ENDPOINTS),
  errors: z
    .strictObject({
      object: z.literal('list'),
      data: z.array(
        z.strictObject({
          code: z.string(),
          message: z.string(),
          line: z.int().nullable(),
          param: z.string().nullable(),
        }),
      ),
    })
    .nullable(),
  input_file_id: z.string(),
  completion_window: z.literal('24h'),
  status: z.enum(BATCH_STATES),
  output_file_id: z.string().nullable(),
  error_file_id: z.string().nullable(),
  created_at: z.int(),
  in_progress_at: time,
  expires_at: z.int(),
  finalizing_at: time,
  completed_at: time,
  failed_at: time,
  expired_at: time,
  cancelling_at: time,
  cancelled_at: time,
  request_counts: z.strictObject({ total: z.int(), completed: z.int(), failed: z.int() }),
  metadata: z.record(z.string(), z.string()).nullable(),
});

export type BatchObject = z.infer<typeof batchSchema>;

export function batchObject(batch: BatchRecord): BatchObject {
  const { id, state, errors, total, completed, failed } = batch;
  const endedAs = (ending: BatchState) => (state === ending ? seconds(batch.endedMs) : null);
  return {
    id,
    object: 'batch',
    endpoint: batch.endpoint as BatchObject['endpoint'],
    errors: errors.length === 0 ? null : { object: 'list', data: errors.map(problemObject) },
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status: state,
    output_file_id: batch.outputFileId ?? null,
    error_file_id: batch.errorFileId ?? null,
    created_at: Math.floor(batch.createdMs / 1000),
    in_progress_at: seconds(batch.inProgressMs),
    expires_at: Math.floor(batch.expiresMs / 1000),
    finalizing_at: seconds(batch.finalizingMs),
    completed_at: endedAs('completed'),
    failed_at: endedAs('failed'),
    expired_at: endedAs('expired'),
    cancelling_at: seconds(batch.cancellingMs),
    cancelled_at: endedAs('cancelled'),
    request_counts: { total, completed, failed },
    metadata: batch.metadata ?? null,
  };
}

function problemObject({ code, message, line, param }: BatchProblem) {
  return { code, message, line: line ?? null, param: param ?? null };
}

function seconds(timeMs: number | undefined): number | null {
  return timeMs === undefined ? null : Math.floor(timeMs / 1000);
}
