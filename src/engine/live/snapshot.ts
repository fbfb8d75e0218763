// A snapshot of an engine: what it does now, and what has happened since the snapshot before. The engine takes it, the server
// joins what comes between two ticks, and the page applies it. The page includes this file, so it imports types alone.

import type { Priority } from '../scheduler/sequence.ts';

export const MOST_STEPS = 64;

export interface EngineSnapshot extends BlockChange {
  /** Since the snapshot before. */
  readonly steps: number;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** The last of these steps, 64 at most. */
  readonly timeline: readonly StepTrace[];
  readonly running: readonly RunningSequence[];
  readonly queues: readonly Queue[];
  /** The most urgent, 64 at most; `queues` count them all. */
  readonly waiting: readonly WaitingSequence[];
  readonly blockCounts: {
    readonly limit: number;
    readonly held: number;
    readonly used: number;
    /** Not in use, and found by prefix. */
    readonly cached: number;
    readonly shared: number;
  };
  /** Totals since the engine's start. */
  readonly preemptions: number;
  readonly evictions: number;
  /** What is kept of blocks that left memory; absent where nothing is. */
  readonly tiers?: TierFigures;
}

export interface TierFigures {
  /** The machine's memory, and its disk; absent where it is not used. */
  readonly host?: TierSize;
  readonly disk?: TierSize;
  /** Blocks that came up, and blocks that were wanted and could not be had. */
  readonly loaded: number;
  readonly missed: number;
}

export interface TierSize {
  readonly blocks: number;
  readonly bytes: number;
}

export interface StepTrace {
  readonly step: number;
  /** When it began, in milliseconds since 1970. */
  readonly atMs: number;
  readonly ms: number;
  readonly sequences: readonly (readonly [lane: number, computedTokens: number, sampledTokens: number])[];
}

export interface SnapshotSequence {
  /** The engine's own id; where the client knows the request by another, the server puts that here. */
  readonly requestId: string;
  readonly tier: Queue['tier'];
  readonly tokens: number;
  readonly ageMs: number;
}

export interface RunningSequence extends SnapshotSequence {
  /** Kept until it ends or is preempted. Between two snapshots a lane is that of one sequence. */
  readonly lane: number;
  /** `load`: its first blocks come up from a lower tier. */
  readonly phase: 'load' | 'prefill' | 'decode';
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly computedTokens: number;
  readonly blocks: number;
}

export interface WaitingSequence extends SnapshotSequence {
  /**
   * `blocks`: it is the next, and there are not enough blocks for it. `prefix`: a running one computes what it begins
   * with. `preempted`: it ran before and had to give its blocks back. `image`: what it shows is being looked at.
   */
  readonly why: 'queue' | 'image' | 'blocks' | 'prefix' | 'preempted';
}

export interface Queue {
  readonly tier: 'high' | 'normal' | 'low';
  readonly waiting: number;
  readonly oldestMs: number;
  /** The expected wait of a request that arrives now; absent where the server has measured none. */
  readonly expectedMs?: number;
}

export function tierOf(priority: Priority): Queue['tier'] {
  return (['high', 'normal', 'low'] as const)[priority];
}

/** 4 and above: held by the sequence of lane `state - FIRST_LANE` alone. */
export type BlockState = number;
export const NO_MEMORY = 0;
export const EMPTY = 1;
/** Not in use, and found by prefix. */
export const CACHED = 2;
/** In use by several sequences. */
export const SHARED = 3;
export const FIRST_LANE = 4;

/** `count` blocks from `first` on have this state now. */
type BlockRun = readonly [first: number, count: number, state: BlockState];

export interface BlockChange {
  readonly blockCount: number;
  /** Before these runs no block holds memory: nothing earlier counts. */
  readonly whole: boolean;
  readonly blocks: readonly BlockRun[];
}

/** Both maps have one size. */
export function changedRuns(before: Int32Array, now: Int32Array): BlockRun[] {
  const runs: BlockRun[] = [];
  for (let block = 0; block < now.length; ) {
    const state = now[block] as number;
    const first = block;
    if (before[block++] === state) continue;
    while (block < now.length && now[block] === state && before[block] !== state) block += 1;
    runs.push([first, block - first, state]);
  }
  return runs;
}

/** The state of every block after the change, in `map` itself unless the change is whole. */
export function applyChange(map: Int32Array, { blockCount, whole, blocks }: BlockChange): Int32Array {
  const now = whole ? new Int32Array(blockCount) : map;
  for (const [first, count, state] of blocks) now.fill(state, first, first + count);
  return now;
}

/** One snapshot that says what two say one after the other. */
export function joinSnapshots(before: EngineSnapshot, next: EngineSnapshot): EngineSnapshot {
  return {
    ...next,
    whole: before.whole || next.whole,
    blocks: next.whole ? next.blocks : [...before.blocks, ...next.blocks],
    steps: before.steps + next.steps,
    promptTokens: before.promptTokens + next.promptTokens,
    generatedTokens: before.generatedTokens + next.generatedTokens,
    timeline: [...before.timeline, ...next.timeline].slice(-MOST_STEPS),
  };
}

/** The same state, with nothing new. */
export function withoutChanges(snapshot: EngineSnapshot): EngineSnapshot {
  return {
    ...snapshot,
    whole: false,
    blocks: [],
    steps: 0,
    promptTokens: 0,
    generatedTokens: 0,
    timeline: [],
  };
}

/** Of an engine that has done nothing. */
export function emptySnapshot(blockCount: number): EngineSnapshot {
  return {
    blockCount,
    whole: true,
    blocks: [],
    steps: 0,
    promptTokens: 0,
    generatedTokens: 0,
    timeline: [],
    running: [],
    queues: [],
    waiting: [],
    blockCounts: { limit: 0, held: 0, used: 0, cached: 0, shared: 0 },
    preemptions: 0,
    evictions: 0,
  };
}
