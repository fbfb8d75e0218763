// One worker's status with one model, as a gateway knows it: its last heartbeat, and what the gateway has sent since.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { Priority } from '../../engine/scheduler/sequence.ts';
import type { LoadedModelStatus } from './heartbeat.ts';

/** What a request adds to a worker until the worker's heartbeats include it. */
export interface Assignment {
  readonly worker: string;
  readonly modelKey: string;
  /** Number among the gateway's assignments to this worker; sent with the request. */
  readonly number: number;
  readonly priority: Priority;
  readonly tokens: number;
  readonly blocks: number;
}

const priorities = [0, 1, 2] as const;

export class WorkerStatus {
  #report: LoadedModelStatus;
  #receivedMs: number;
  readonly #unseen = new Map<number, Assignment>();
  readonly #unseenTokens = [0, 0, 0];
  readonly #unseenCount = [0, 0, 0];
  #unseenBlocks = 0;
  /** Other gateways that send to the worker probably do as this one does, unseen. */
  #gateways: number;

  constructor(report: LoadedModelStatus, gateways: number, receivedMs: number) {
    this.#report = report;
    this.#gateways = Math.max(1, gateways);
    this.#receivedMs = receivedMs;
  }

  get report(): LoadedModelStatus {
    return this.#report;
  }

  get receivedMs(): number {
    return this.#receivedMs;
  }

  /** Assignments that no heartbeat contains yet. */
  get unseen(): number {
    return this.#unseen.size;
  }

  tokensOf(priority: Priority): number {
    return this.#report.queuedTokens[priority] + this.#gateways * (this.#unseenTokens[priority] as number);
  }

  waitingOf(priority: Priority): number {
    return this.#report.waiting[priority] + this.#gateways * (this.#unseenCount[priority] as number);
  }

  get sequences(): number {
    return priorities.reduce<number>((sum, priority) => sum + this.waitingOf(priority), this.#report.running);
  }

  get freeBlocks(): number {
    return Math.max(0, this.#report.freeBlocks - this.#gateways * this.#unseenBlocks);
  }

  /** `heard`: the last assignment that the report includes. */
  renew(report: LoadedModelStatus, heard: number, gateways: number, receivedMs: number): void {
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

  /** No effect on what a heartbeat already includes. */
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
