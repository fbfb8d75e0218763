// What is known of a batch: many requests of one key, given as a file, and answered in a file when there is time.

import type { BatchTable } from './schema.ts';
import type { RequestUsage } from './usage-store.ts';

/** As OpenAI has them, in the order they come. */
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

/** How one ends whose files are written. */
export type BatchEnding = 'completed' | 'failed' | 'expired' | 'cancelled';

/** Why a batch failed. */
export interface BatchProblem {
  readonly code: string;
  readonly message: string;
  /** Of the input, where it is about one; counted from 1. */
  readonly line?: number | undefined;
  readonly param?: string | undefined;
}

export interface NewBatch {
  readonly endpoint: string;
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly expiresMs: number;
  /** How long its files stay; undefined for as long as others. */
  readonly outputSeconds: number | undefined;
}

export interface BatchRecord extends NewBatch {
  readonly id: string;
  readonly keyId: string;
  readonly state: BatchState;
  /** What it becomes once its files are written. */
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

/** Who takes something, and for how long; milliseconds since 1970. */
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

/** A line that its borrower is to run. */
export interface TakenLine extends LineName {
  readonly customId: string;
  /** What is asked, in JSON. */
  readonly body: string;
  /** How often it was begun and not given back, this time included. */
  readonly attempts: number;
}

export interface LineAnswer {
  /** JSON, on one line. */
  readonly text: string;
  readonly succeeded: boolean;
  /** Undefined where it got so far that nothing counts. */
  readonly usage: RequestUsage | undefined;
}

export interface LineQueue {
  /** The first of those that nobody has answered or borrowed. */
  take(batchId: string, count: number, lease: Lease): Promise<readonly TakenLine[]>;
  /** What is borrowed stays so for longer. */
  renew(lines: readonly LineName[], lease: Lease): Promise<void>;
  /** Gives a line back unanswered, which nobody takes before that time. `tried`: whether the attempt counts. */
  giveBack(line: LineName, owner: string, notBeforeMs: number, tried: boolean): Promise<void>;
  /** Gives back all that this owner had before it was gone. */
  giveBackAll(owner: string): Promise<void>;
  /**
   * Keeps the answer, counts it and what it used, all or nothing. False where it comes too late: the line has an answer,
   * or its batch takes no more.
   */
  answer(line: LineName, keyId: string, answer: LineAnswer, nowMs: number): Promise<boolean>;
}
