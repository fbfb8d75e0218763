// When a worker would begin, give the first token of, and finish a request: arithmetic over its status. The figures are
// estimates, good enough to compare workers; what each term stands for is in docs/fleet-routing.md.

import { AGING_PER_SECOND, type Priority } from '../../engine/scheduler/sequence.ts';
import { type ExpectedPrefix, foundTokens } from './expected-prefix.ts';
import type { ByPriority } from './heartbeat.ts';
import { blocksOf, type WorkerStatus } from './worker-status.ts';

export interface RequestShape {
  readonly priority: Priority;
  /** How long it has waited already, where it continues after a failure. */
  readonly ageMs: number;
  readonly promptTokens: number;
  readonly expectedTokens: number;
  readonly maxTokens: number;
}

/** All from now on. */
export interface ExpectedTimes {
  /** Until its prompt is first computed. */
  readonly waitMs: number;
  readonly firstTokenMs: number;
  readonly finishMs: number;
  /** How much later all running sequences together finish because of it. */
  readonly othersMs: number;
}

/** Depends on the worker and the priority alone: kept for each worker, so that thousands can be compared. */
export interface Pace {
  readonly aheadMs: number;
  /** A prompt token with its share of the steps it is computed in. */
  readonly tokenMs: number;
  readonly stepMs: number;
  /** What one prompt token and one answer token cost all running sequences together. */
  readonly othersTokenMs: number;
  readonly othersStepMs: number;
}

const priorities = [0, 1, 2] as const;
/** A sequence of the next lower priority goes first where it is this much older. */
const TIER_MS = 1000 / AGING_PER_SECOND;

export function paceOf(status: WorkerStatus, priority: Priority, ageMs = 0): Pace {
  const { running, maxRunning, speeds, answerTokens } = status.report;
  const ahead = aheadOf(status, priority, ageMs);
  const rows = Math.min(maxRunning - 1, running + ahead.sequences);
  const stepMs = speeds.stepBaseMs + speeds.stepRowMs * (rows + 1);
  const besidesMs = speeds.stepBaseMs + speeds.stepRowMs * rows;
  const tokenMs = speeds.promptTokenMs + besidesMs / chunkBeside(rows, speeds.stepTokens);
  // Lanes become free as answers end; prompts ahead are computed meanwhile.
  const beyond = Math.max(0, running + ahead.sequences + 1 - maxRunning);
  const placeMs = (beyond * answerTokens * stepMs) / maxRunning;
  return {
    aheadMs: Math.max(ahead.tokens * tokenMs, placeMs),
    tokenMs,
    stepMs,
    othersTokenMs: running * speeds.promptTokenMs,
    // Half of the others will have ended before this one does.
    othersStepMs: (running * speeds.stepRowMs) / 2,
  };
}

export function costMs({ finishMs, othersMs }: ExpectedTimes): number {
  return finishMs + othersMs;
}

export function expectedTimes(
  status: WorkerStatus,
  request: RequestShape,
  prefix: ExpectedPrefix,
  nowMs: number,
): ExpectedTimes {
  const pace = paceOf(status, request.priority, request.ageMs);
  const { speeds, running, maxRunning } = status.report;
  const rows = Math.min(maxRunning - 1, running);
  const uncached = request.promptTokens - foundTokens(prefix);
  const sinceMs = Math.max(0, nowMs - status.receivedMs);
  const waitMs = Math.max(
    0,
    Math.max(pace.aheadMs, shortageMs(status, request, prefix.memoryBlocks, pace)) - sinceMs,
  );
  const steps = Math.ceil(uncached / chunkBeside(rows, speeds.stepTokens));
  const ownMs = uncached * speeds.promptTokenMs + steps * (speeds.stepBaseMs + speeds.stepRowMs * (rows + 1));
  const firstTokenMs = waitMs + prefix.loadMs + ownMs;
  return {
    waitMs,
    firstTokenMs,
    finishMs: firstTokenMs + (request.expectedTokens - 1) * pace.stepMs,
    othersMs: uncached * pace.othersTokenMs + request.expectedTokens * pace.othersStepMs,
  };
}

/** Whether the worker could compute the request at all, were it alone. */
export function fits({ report }: WorkerStatus, { promptTokens, maxTokens }: RequestShape): boolean {
  return blocksOf(promptTokens + maxTokens - 1) <= report.totalBlocks;
}

/** Until running answers have released the missing blocks; with fewer blocks a sequence would be preempted. */
function shortageMs(
  status: WorkerStatus,
  { promptTokens, expectedTokens, priority, ageMs }: RequestShape,
  cachedBlocks: number,
  { stepMs }: Pace,
): number {
  const { totalBlocks, answerTokens, running } = status.report;
  const { freeBlocks } = status;
  const wanted = blocksOf(promptTokens + expectedTokens) - cachedBlocks;
  const missing = wanted + blocksOf(aheadOf(status, priority, ageMs).waitingTokens) - freeBlocks;
  if (missing <= 0) return 0;
  // Each end releases as many blocks as running sequences hold on average; ends are spread evenly over an answer's
  // time.
  const blocksAnEnd = Math.max(1, (totalBlocks - freeBlocks) / Math.max(1, running));
  return (Math.ceil(missing / blocksAnEnd) * answerTokens * stepMs) / (running + 1);
}

interface Ahead {
  readonly tokens: number;
  /** Tokens whose blocks are not allocated yet. */
  readonly waitingTokens: number;
  readonly sequences: number;
}

/** What goes before a request of this priority and age: its own tier, higher tiers, and older sequences of lower tiers. */
function aheadOf(status: WorkerStatus, priority: Priority, ageMs: number): Ahead {
  let tokens = 0;
  let waitingTokens = 0;
  let sequences = 0;
  for (const other of priorities) {
    const share = shareAhead(priority - other, ageMs, status.report.oldestMs[other]);
    if (share === 0) continue;
    const waiting = status.waitingOf(other);
    const queued = status.tokensOf(other);
    tokens += share * queued;
    if (waiting > 0) waitingTokens += share * queued;
    sequences += share * waiting;
  }
  return { tokens, waitingTokens, sequences };
}

/** Assumes that ages in a queue lie evenly between 0 and the oldest. */
function shareAhead(tiersAbove: number, ageMs: number, oldestMs: number): number {
  const leadMs = ageMs + -tiersAbove * TIER_MS;
  if (leadMs <= 0) return 1;
  return oldestMs <= leadMs ? 0 : 1 - leadMs / oldestMs;
}

function chunkBeside(rows: number, stepTokens: number): number {
  return Math.max(1, stepTokens - rows);
}

/** Longest expected waits before a prompt is first computed. */
export const DEFAULT_MAX_WAIT_MS: ByPriority = [60_000, 60_000, 600_000];

export interface Refusal {
  readonly kind: 'refused';
  readonly expectedWaitMs: number;
  readonly retryAfterSeconds: number;
}

/** Undefined where it is admitted. A queue shrinks by one second a second, so the excess is the time to wait. */
export function refuse(waitMs: number, priority: Priority, maxWaitMs: ByPriority): Refusal | undefined {
  const beyondMs = waitMs - maxWaitMs[priority];
  if (beyondMs <= 0) return undefined;
  return {
    kind: 'refused',
    expectedWaitMs: waitMs,
    retryAfterSeconds: Math.max(1, Math.ceil(beyondMs / 1000)),
  };
}
