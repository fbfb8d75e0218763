// When a worker would begin, give the first token of, and finish a request: arithmetic over its standing. The figures are
// estimates, good enough to compare workers; what each term stands for is in docs/fleet-routing.md.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { AGING_PER_SECOND, type Priority } from '../../engine/scheduler/sequence.ts';
import { blocksOf, type WorkerStanding } from './worker-standing.ts';

/** What is asked of a worker. */
export interface RequestShape {
  readonly priority: Priority;
  /** How long it has been waiting already, where it goes on after a failure. */
  readonly ageMs: number;
  readonly promptTokens: number;
  /** Tokens that the answer will probably have. */
  readonly expectedTokens: number;
  /** The most it may have. */
  readonly maxTokens: number;
}

/** All from now on. */
export interface ExpectedTimes {
  /** Until its prompt begins to be computed. */
  readonly waitMs: number;
  readonly firstTokenMs: number;
  readonly finishMs: number;
  /** How much later all running sequences together finish because of it. */
  readonly othersMs: number;
}

/** What does not depend on the request but for its priority: kept for each worker, so that thousands can be compared. */
export interface Pace {
  /** Until prompts ahead are computed and there is a place to run in, as of the last heartbeat. */
  readonly aheadMs: number;
  /** A prompt's token, with its share of the steps it is computed in. */
  readonly tokenMs: number;
  /** A step with one row more. */
  readonly stepMs: number;
  /** What a prompt's token, and an answer's, cost all running sequences together. */
  readonly othersTokenMs: number;
  readonly othersStepMs: number;
}

const priorities = [0, 1, 2] as const;
/** So much older a sequence of the next lower priority goes first. */
const TIER_MS = 1000 / AGING_PER_SECOND;

export function paceOf(standing: WorkerStanding, priority: Priority, ageMs = 0): Pace {
  const { running, maxRunning, speeds, answerTokens } = standing.report;
  const ahead = aheadOf(standing, priority, ageMs);
  const rows = Math.min(maxRunning - 1, running + ahead.sequences);
  const stepMs = speeds.stepBaseMs + speeds.stepRowMs * (rows + 1);
  const besidesMs = speeds.stepBaseMs + speeds.stepRowMs * rows;
  const tokenMs = speeds.promptTokenMs + besidesMs / chunkBeside(rows, speeds.stepTokens);
  // Places become free as answers end, one after the other; prompts ahead are computed meanwhile.
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

/** What workers are compared by: everybody's time, not only that of the request. */
export function costMs({ finishMs, othersMs }: ExpectedTimes): number {
  return finishMs + othersMs;
}

export function expectedTimes(
  standing: WorkerStanding,
  request: RequestShape,
  cachedBlocks: number,
  nowMs: number,
): ExpectedTimes {
  const pace = paceOf(standing, request.priority, request.ageMs);
  const { speeds, running, maxRunning } = standing.report;
  const rows = Math.min(maxRunning - 1, running);
  const uncached = request.promptTokens - cachedBlocks * BLOCK_TOKENS;
  const sinceMs = Math.max(0, nowMs - standing.receivedMs);
  const waitMs = Math.max(
    0,
    Math.max(pace.aheadMs, shortageMs(standing, request, cachedBlocks, pace)) - sinceMs,
  );
  const steps = Math.ceil(uncached / chunkBeside(rows, speeds.stepTokens));
  const ownMs = uncached * speeds.promptTokenMs + steps * (speeds.stepBaseMs + speeds.stepRowMs * (rows + 1));
  const firstTokenMs = waitMs + ownMs;
  return {
    waitMs,
    firstTokenMs,
    finishMs: firstTokenMs + (request.expectedTokens - 1) * pace.stepMs,
    othersMs: uncached * pace.othersTokenMs + request.expectedTokens * pace.othersStepMs,
  };
}

/** Whether the worker could compute the request at all, were it alone. */
export function fits({ report }: WorkerStanding, { promptTokens, maxTokens }: RequestShape): boolean {
  return blocksOf(promptTokens + maxTokens - 1) <= report.totalBlocks;
}

/** Until running answers have given back the blocks that are missing; where they are few, somebody would be preempted. */
function shortageMs(
  standing: WorkerStanding,
  { promptTokens, expectedTokens, priority, ageMs }: RequestShape,
  cachedBlocks: number,
  { stepMs }: Pace,
): number {
  const { totalBlocks, answerTokens, running } = standing.report;
  const { freeBlocks } = standing;
  const wanted = blocksOf(promptTokens + expectedTokens) - cachedBlocks;
  const missing = wanted + blocksOf(aheadOf(standing, priority, ageMs).waitingTokens) - freeBlocks;
  if (missing <= 0) return 0;
  // Each end gives back as much as running sequences hold on average; ends lie evenly in an answer's time.
  const blocksAnEnd = Math.max(1, (totalBlocks - freeBlocks) / Math.max(1, running));
  return (Math.ceil(missing / blocksAnEnd) * answerTokens * stepMs) / (running + 1);
}

interface Ahead {
  readonly tokens: number;
  /** Of them, those whose blocks are not taken yet. */
  readonly waitingTokens: number;
  readonly sequences: number;
}

/** What goes before a request of this priority and age: its own tier, higher ones, and lower ones as far as they are older. */
function aheadOf(standing: WorkerStanding, priority: Priority, ageMs: number): Ahead {
  let tokens = 0;
  let waitingTokens = 0;
  let sequences = 0;
  for (const other of priorities) {
    const share = shareAhead(priority - other, ageMs, standing.report.oldestMs[other]);
    if (share === 0) continue;
    const waiting = standing.waitingOf(other);
    const queued = standing.tokensOf(other);
    tokens += share * queued;
    if (waiting > 0) waitingTokens += share * queued;
    sequences += share * waiting;
  }
  return { tokens, waitingTokens, sequences };
}

/** How much of a tier's queue goes first, its ages taken to lie evenly between 0 and the oldest. */
function shareAhead(tiersAbove: number, ageMs: number, oldestMs: number): number {
  const leadMs = ageMs + -tiersAbove * TIER_MS;
  if (leadMs <= 0) return 1;
  return oldestMs <= leadMs ? 0 : 1 - leadMs / oldestMs;
}

function chunkBeside(rows: number, stepTokens: number): number {
  return Math.max(1, stepTokens - rows);
}
