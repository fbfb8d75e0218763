// A snapshot of an engine, as plain data: what it does now, and what it has done since the last snapshot. Requests by their
// ids.

import type { Priority } from '../scheduler/sequence.ts';
import type { QueueStats, RunningStats } from '../scheduler/stats.ts';
import type { BlockRun } from './block-runs.ts';

export interface EngineView {
  readonly blockCount: number;
  /** There was none before: changed blocks are given as if none had held memory. */
  readonly first: boolean;
  /** Since the last snapshot. */
  readonly steps: number;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** The last of these steps, 64 at most. */
  readonly timeline: readonly StepView[];
  readonly riders: readonly RiderView[];
  readonly queues: readonly QueueStats[];
  /** The most urgent of those that wait, 64 at most. */
  readonly waiting: readonly WaitingView[];
  /** Changed since the last snapshot. */
  readonly blocks: readonly BlockRun[];
  readonly blockCounts: BlockCounts;
  /** Totals since the engine's start. */
  readonly preemptions: number;
  readonly evictions: number;
}

interface BlockCounts {
  readonly limit: number;
  readonly held: number;
  readonly used: number;
  /** Held by nobody. */
  readonly cached: number;
  readonly shared: number;
}

export interface StepView {
  readonly step: number;
  /** When it began, in milliseconds since 1970. */
  readonly atMs: number;
  readonly ms: number;
  readonly rides: readonly Ride[];
}

/** Of everybody in a step. */
export type Ride = readonly [seat: number, computed: number, sampled: number];

export interface RiderView extends RunningStats {
  readonly seat: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/**
 * `blocks`: it is the next, and there are not enough blocks for it. `prefix`: a running one computes what it begins
 * with. `preempted`: it ran before and had to give its blocks back.
 */
export type WaitReason = 'queue' | 'blocks' | 'prefix' | 'preempted';

export interface WaitingView {
  readonly id: string;
  readonly priority: Priority;
  readonly tokens: number;
  readonly ageMs: number;
  readonly why: WaitReason;
}
