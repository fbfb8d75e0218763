// A snapshot of the scheduler for metrics and the dashboard.

import type { BlockTables } from '../cache/block-tables.ts';
import type { Priority, Sequence } from './sequence.ts';

interface QueueStats {
  readonly priority: Priority;
  readonly waiting: number;
  /** 0 where nothing waits. */
  readonly oldestMs: number;
}

interface RunningStats {
  readonly id: string;
  readonly priority: Priority;
  /** `load`: its first blocks come up from a lower tier. */
  readonly phase: 'load' | 'prefill' | 'decode';
  readonly tokens: number;
  readonly computed: number;
  readonly blocks: number;
  readonly ageMs: number;
  /** The number that it leaves its prefix under, where prefixes are saved. */
  readonly slot?: number | undefined;
}

export interface BlockStats {
  /** The most there can ever be. */
  readonly total: number;
  /** The most that may hold memory now. */
  readonly limit: number;
  /** Those that do. */
  readonly held: number;
  readonly used: number;
  /** Unreferenced, still holding a prefix that can be found. */
  readonly cached: number;
  /** Unreferenced and empty, as many as may be taken. */
  readonly free: number;
}

/** Where the scheduler stands with its blocks: what it may hold, holds, uses, and would like to be allowed. */
export interface BlockDemand {
  readonly limit: number;
  readonly held: number;
  readonly used: number;
  /** Of those in use, by several sequences. */
  readonly shared: number;
  /** Not in use, and found by prefix. */
  readonly cached: number;
  /** Above the limit where more blocks would serve. */
  readonly wanted: number;
  /** Sequences wait or were preempted for want of blocks; otherwise more would serve the prefix cache alone. */
  readonly short: boolean;
  /** Blocks without which its most urgent sequence cannot go on; 0 where there is none. */
  readonly required: number;
}

/** Totals since the start. */
interface SchedulerCounters {
  readonly admissions: number;
  readonly preemptions: number;
  /** Prompt tokens looked up in the prefix cache, and those found, at each first admission. */
  readonly prefixQueriedTokens: number;
  readonly prefixHitTokens: number;
  /** Tokens that went through the model. */
  readonly computedTokens: number;
}

export interface SchedulerStats {
  readonly queues: readonly QueueStats[];
  /** Waiting sequences that wait for a prefix which a running one computes. */
  readonly deferred: number;
  readonly running: readonly RunningStats[];
  readonly blocks: BlockStats;
  readonly counters: SchedulerCounters;
}

export function queueStats(waiting: Iterable<Sequence>, nowMs: number): QueueStats[] {
  const queues = ([0, 1, 2] as const).map((priority) => ({ priority, waiting: 0, oldestMs: 0 }));
  for (const sequence of waiting) {
    const queue = queues[sequence.priority] as { waiting: number; oldestMs: number };
    queue.waiting += 1;
    queue.oldestMs = Math.max(queue.oldestMs, nowMs - sequence.enqueuedMs);
  }
  return queues;
}

export function runningStats(sequence: Sequence, nowMs: number): RunningStats {
  return {
    id: sequence.id,
    priority: sequence.priority,
    phase: sequence.loading !== undefined ? 'load' : sequence.remaining > 1 ? 'prefill' : 'decode',
    tokens: sequence.length,
    computed: sequence.computed,
    blocks: sequence.blocks.length,
    ageMs: nowMs - sequence.enqueuedMs,
  };
}

export function blockStats({ pool }: BlockTables): BlockStats {
  return {
    total: pool.blockCount,
    limit: pool.limit,
    held: pool.residentCount,
    used: pool.usedCount,
    cached: pool.cachedFreeCount,
    free: pool.freeCount - pool.cachedFreeCount,
  };
}
