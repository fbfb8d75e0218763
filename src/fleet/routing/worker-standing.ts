// Where one worker stands with one model, as a gateway knows it: the last heartbeat, and what the gateway has sent since then
// that the heartbeat could not know of. Knows no other worker.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { Priority } from '../../engine/scheduler/sequence.ts';
import type { ModelStanding } from './heartbeat.ts';

/** What a request adds to a worker, until the worker's own figures contain it. */
export interface Assignment {
  readonly worker: string;
  readonly modelKey: string;
  /** Of the gateway's assignments to this worker: 1, 2, 3, ... It travels with the request. */
  readonly number: number;
  readonly priority: Priority;
  /** Prompt tokens to compute. */
  readonly tokens: number;
  readonly blocks: number;
}

const priorities = [0, 1, 2] as const;

export class WorkerStanding {
  #report: ModelStanding;
  #receivedMs: number;
  readonly #unseen = new Map<number, Assignment>();
  readonly #unseenTokens = [0, 0, 0];
  readonly #unseenCount = [0, 0, 0];
  #unseenBlocks = 0;
  /** Gateways that send to the worker. Others probably do what this one does, and it cannot see that either. */
  #gateways: number;

  constructor(report: ModelStanding, gateways: number, receivedMs: number) {
    this.#report = report;
    this.#gateways = Math.max(1, gateways);
    this.#receivedMs = receivedMs;
  }

  get report(): ModelStanding {
    return this.#report;
  }

  /** By this gateway's clock. */
  get receivedMs(): number {
    return this.#receivedMs;
  }

  /** Assignments that no heartbeat contains yet. */
  get unseen(): number {
    return this.#unseen.size;
  }

  /** Prompt tokens to compute, of one priority. */
  tokensOf(priority: Priority): number {
    return this.#report.queuedTokens[priority] + this.#gateways * (this.#unseenTokens[priority] as number);
  }

  /** Sequences that wait, as far as is known, of one priority. */
  waitingOf(priority: Priority): number {
    return this.#report.waiting[priority] + this.#gateways * (this.#unseenCount[priority] as number);
  }

  /** Running, waiting, and on their way. */
  get sequences(): number {
    return priorities.reduce<number>((sum, priority) => sum + this.waitingOf(priority), this.#report.running);
  }

  get freeBlocks(): number {
    return Math.max(0, this.#report.freeBlocks - this.#gateways * this.#unseenBlocks);
  }

  /** `heard`: the last assignment that the report contains. */
  renew(report: ModelStanding, heard: number, gateways: number, receivedMs: number): void {
    this.#report = report;
    this.#gateways = Math.max(1, gateways);
    this.#receivedMs = receivedMs;
    for (const assignment of this.#unseen.values()) {
      if (assignment.number > heard) break;
      this.end(assignment);
    }
  }

  assign(assignment: Assignment): void {
    this.#unseen.set(assignment.number, assignment);
    this.#count(assignment, 1);
  }

  /** Takes back what a heartbeat has not taken up; nothing where one has. */
  end(assignment: Assignment): void {
    if (this.#unseen.delete(assignment.number)) this.#count(assignment, -1);
  }

  #count({ priority, tokens, blocks }: Assignment, sign: 1 | -1): void {
    this.#unseenTokens[priority] = (this.#unseenTokens[priority] as number) + sign * tokens;
    this.#unseenCount[priority] = (this.#unseenCount[priority] as number) + sign;
    this.#unseenBlocks += sign * blocks;
  }
}

export function blocksOf(tokens: number): number {
  return Math.ceil(tokens / BLOCK_TOKENS);
}
