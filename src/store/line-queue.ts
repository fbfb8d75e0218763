// Between a batch and who runs its lines. A line is lent for a while: whoever dies gives it back by that, and of several
// who answer it the first counts. One machine has one borrower, a fleet has many; another queue may stand in for the store.

import type { RequestUsage } from './usage-store.ts';

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
