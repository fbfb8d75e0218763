// Takes snapshots of a running engine: gathers its steps, and says at each snapshot what has changed. Knows no clock.

import { Heap } from '../scheduler/heap.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import { compareKeys, type Sequence } from '../scheduler/sequence.ts';
import { runningStats } from '../scheduler/stats.ts';
import type { StepItem, StepPlan } from '../scheduler/step-plan.ts';
import {
  changedRuns,
  type EngineSnapshot,
  FIRST_LANE,
  MOST_STEPS,
  type RunningSequence,
  SHARED,
  type SnapshotSequence,
  type StepTrace,
  type TierFigures,
  tierOf,
  type WaitingSequence,
} from './snapshot.ts';

const MOST_WAITING = 64;

/** Sequences that wait for their images and are not queued yet. */
export interface ImageWaits {
  waiting(): Iterable<Sequence>;
}

export class LiveView {
  readonly #scheduler: Scheduler;
  readonly #images: ImageWaits;
  readonly #tiers: (() => TierFigures) | undefined;
  readonly #lanes = new Lanes();
  /** The blocks as of the last snapshot, and room for those of the next. */
  #before: Int32Array;
  #map: Int32Array;
  #timeline: StepTrace[] = [];
  #steps = 0;
  #promptTokens = 0;
  #generatedTokens = 0;
  #whole = true;

  constructor(scheduler: Scheduler, images: ImageWaits = { waiting: () => [] }, tiers?: () => TierFigures) {
    this.#scheduler = scheduler;
    this.#images = images;
    this.#tiers = tiers;
    const { blockCount } = scheduler.tables.pool;
    this.#before = new Int32Array(blockCount);
    this.#map = new Int32Array(blockCount);
  }

  /** A step is committed. */
  stepped({ items }: StepPlan, { step, atMs, ms }: Omit<StepTrace, 'sequences'>): void {
    this.#steps += 1;
    const sequences = items.map((item) => {
      const sampled = sampledTokens(item);
      this.#promptTokens += promptTokens(item);
      this.#generatedTokens += sampled;
      return [this.#lanes.of(item.sequence), item.count, sampled] as const;
    });
    this.#timeline.push({ step, atMs: hundredths(atMs), ms: hundredths(ms), sequences });
    if (this.#timeline.length > MOST_STEPS) this.#timeline.shift();
  }

  snapshot(nowMs: number): EngineSnapshot {
    const { pool } = this.#scheduler.tables;
    const { queues, counters } = this.#scheduler.stats(nowMs, this.#images.waiting());
    const running = this.#scheduler.running.map((sequence) => this.#running(sequence, nowMs));
    this.#mapBlocks();
    const snapshot: EngineSnapshot = {
      blockCount: pool.blockCount,
      whole: this.#whole,
      blocks: changedRuns(this.#before, this.#map),
      steps: this.#steps,
      promptTokens: this.#promptTokens,
      generatedTokens: this.#generatedTokens,
      timeline: this.#timeline,
      running,
      queues: queues.map(({ priority, waiting, oldestMs }) => ({
        tier: tierOf(priority),
        waiting,
        oldestMs: Math.round(oldestMs),
      })),
      waiting: this.#waiting(nowMs),
      blockCounts: {
        limit: pool.limit,
        held: pool.residentCount,
        used: pool.usedCount,
        cached: pool.cachedFreeCount,
        shared: pool.sharedCount,
      },
      preemptions: counters.preemptions,
      evictions: pool.evictions,
      ...(this.#tiers && { tiers: this.#tiers() }),
    };
    this.#begin();
    return snapshot;
  }

  /** What follows counts for the next snapshot. */
  #begin(): void {
    [this.#before, this.#map] = [this.#map, this.#before];
    this.#lanes.release();
    this.#timeline = [];
    this.#steps = 0;
    this.#promptTokens = 0;
    this.#generatedTokens = 0;
    this.#whole = false;
  }

  #mapBlocks(): void {
    const map = this.#map;
    this.#scheduler.tables.pool.describe(map);
    for (const sequence of this.#scheduler.running) {
      const own = FIRST_LANE + this.#lanes.of(sequence);
      for (const block of sequence.blocks) if (map[block] !== SHARED) map[block] = own;
    }
  }

  #running(sequence: Sequence, nowMs: number): RunningSequence {
    const { phase, computed, blocks } = runningStats(sequence, nowMs);
    return {
      lane: this.#lanes.of(sequence),
      ...described(sequence, nowMs),
      phase,
      promptTokens: sequence.promptLength,
      cachedTokens: sequence.cachedTokens,
      computedTokens: computed,
      blocks,
    };
  }

  #waiting(nowMs: number): WaitingSequence[] {
    const deferred = new Set<Sequence>();
    for (const { sequence } of this.#scheduler.deferred()) deferred.add(sequence);
    const { sequence: next, short } = this.#scheduler.next;
    const why = (sequence: Sequence): WaitingSequence['why'] => {
      if (sequence.state === 'new') return 'image';
      if (deferred.has(sequence)) return 'prefix';
      if (sequence.state === 'preempted') return 'preempted';
      return sequence === next && short ? 'blocks' : 'queue';
    };
    const all = [...this.#scheduler.waiting(), ...this.#images.waiting()];
    return mostUrgent(all, MOST_WAITING).map((sequence) => ({
      ...described(sequence, nowMs),
      why: why(sequence),
    }));
  }
}

/** Gives each running sequence a lane: the lowest number that is free. */
class Lanes {
  readonly #lanes = new Map<Sequence, number>();
  /** Smallest last. */
  #free: number[] = [];
  #count = 0;

  of(sequence: Sequence): number {
    let lane = this.#lanes.get(sequence);
    if (lane === undefined) {
      lane = this.#free.pop() ?? this.#count++;
      this.#lanes.set(sequence, lane);
    }
    return lane;
  }

  /** Frees the lanes of all that run no more. */
  release(): void {
    const before = this.#free.length;
    for (const [sequence, lane] of this.#lanes) {
      if (sequence.state === 'running') continue;
      this.#lanes.delete(sequence);
      this.#free.push(lane);
    }
    if (this.#free.length > before) this.#free.sort((a, b) => b - a);
  }
}

function described({ id, priority, length, enqueuedMs }: Sequence, nowMs: number): SnapshotSequence {
  return { requestId: id, tier: tierOf(priority), tokens: length, ageMs: Math.round(nowMs - enqueuedMs) };
}

function hundredths(ms: number): number {
  return Math.round(100 * ms) / 100;
}

/** In one pass: tens of thousands may wait. */
function mostUrgent(sequences: Iterable<Sequence>, count: number): Sequence[] {
  const kept = new Heap<Sequence>((a, b) => compareKeys(b, a));
  for (const sequence of sequences) {
    const last = kept.size < count ? undefined : (kept.peek() as Sequence);
    if (last !== undefined && compareKeys(sequence, last) >= 0) continue;
    if (last !== undefined) kept.remove(last);
    kept.push(sequence);
  }
  return [...kept].sort(compareKeys);
}

/** None of one that ended while the step was computed. */
function sampledTokens({ sequence, start, count, draft, samples }: StepItem): number {
  return samples ? sequence.length - (start + count - draft.tokens.length) : 0;
}

function promptTokens({ sequence, start, count, draft }: StepItem): number {
  return Math.max(0, Math.min(start + count - draft.tokens.length, sequence.promptLength) - start);
}
