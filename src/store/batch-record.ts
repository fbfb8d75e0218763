// Batches and their lines: many requests of one key in a file, answered in a file.

import type { BatchTable } from './schema.ts';
import type { RequestUsage } from './usage-batch.ts';

/** OpenAI's states, in their order. */
export const BATCH_STATES = [
  'validating',
  'failed',
  'in_progress',
  'finalizing',
  'completed',
  'expired',
  'cancelling',
  'cancelled',
] as const;

export type BatchState = (typeof BATCH_STATES)[number];

export type BatchEnding = 'completed' | 'failed' | 'expired' | 'cancelled';

export interface BatchProblem {
  readonly code: string;
  readonly message: string;
  /** The line of the input, counted from 1. */
  readonly line?: number | undefined;
  readonly param?: string | undefined;
}

export interface NewBatch {
  readonly endpoint: string;
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly expiresMs: number;
  /** Lifetime of the output files; undefined: the default. */
  readonly outputSeconds: number | undefined;
}

export interface BatchRecord extends NewBatch {
  readonly id: string;
  readonly keyId: string;
  readonly state: BatchState;
  /** The final state, once its files are written. */
  readonly ending: BatchEnding | undefined;
  readonly outputFileId: string | undefined;
  readonly errorFileId: string | undefined;
  readonly errors: readonly BatchProblem[];
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly createdMs: number;
  readonly inProgressMs: number | undefined;
  readonly finalizingMs: number | undefined;
  readonly cancellingMs: number | undefined;
  readonly endedMs: number | undefined;
}

export function batchOf(row: BatchTable): BatchRecord {
  return {
    id: row.id,
    keyId: row.key_id,
    state: row.state as BatchState,
    ending: (row.ending ?? undefined) as BatchEnding | undefined,
    endpoint: row.endpoint,
    inputFileId: row.input_file_id,
    outputFileId: row.output_file_id ?? undefined,
    errorFileId: row.error_file_id ?? undefined,
    outputSeconds: row.output_seconds ?? undefined,
    metadata: row.metadata === null ? undefined : (JSON.parse(row.metadata) as Record<string, string>),
    errors: row.errors === null ? [] : (JSON.parse(row.errors) as BatchProblem[]),
    total: row.total,
    completed: row.completed,
    failed: row.failed,
    createdMs: row.created_ms,
    expiresMs: row.expires_ms,
    inProgressMs: row.in_progress_ms ?? undefined,
    finalizingMs: row.finalizing_ms ?? undefined,
    cancellingMs: row.cancelling_ms ?? undefined,
    endedMs: row.ended_ms ?? undefined,
  };
}

/** By the database's clock, in milliseconds since 1970. */
export interface Lease {
  readonly owner: string;
  readonly nowMs: number;
  readonly untilMs: number;
}

export interface LineName {
  readonly batchId: string;
  /** Counted from 1. */
  readonly line: number;
}

export interface TakenLine extends LineName {
  readonly customId: string;
  readonly body: string;
  /** Including this one; a line given back untried does not count. */
  readonly attempts: number;
}

export interface LineAnswer {
  /** JSON, on one line. */
  readonly text: string;
  readonly succeeded: boolean;
  /** Undefined where nothing is charged. */
  readonly usage: RequestUsage | undefined;
}

export interface LineQueue {
  /** By the clock that leases are measured with. */
  nowMs(): Promise<number>;
  /** Leases the first lines that are neither answered nor leased. */
  take(batchId: string, count: number, lease: Lease): Promise<readonly TakenLine[]>;
  /** Extends leases. */
  renew(lines: readonly LineName[], lease: Lease): Promise<void>;
  /** Returns a line unanswered; nobody takes it before that time. `tried`: whether the attempt counts. */
  giveBack(line: LineName, owner: string, notBeforeMs: number, tried: boolean): Promise<void>;
  giveBackAll(owner: string): Promise<void>;
  /**
   * Stores the answer with its usage in one transaction. False where it comes too late: another answer came first, or
   * the batch takes no more.
   */
  answer(line: LineName, keyId: string, answer: LineAnswer, nowMs: number): Promise<boolean>;
}
