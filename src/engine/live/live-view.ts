// Gathers steps for snapshots of an engine: each says what has changed since the last one. Knows no clock.

import { Heap } from '../scheduler/heap.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import { compareKeys, type Sequence } from '../scheduler/sequence.ts';
import { runningStats } from '../scheduler/stats.ts';
import type { StepItem, StepPlan } from '../scheduler/step-plan.ts';
import { changedRuns } from './block-runs.ts';
import type { EngineView, Ride, StepView, WaitingView, WaitReason } from './engine-view.ts';
import { Seats } from './seats.ts';

const MOST_STEPS = 64;
const MOST_WAITING = 64;

export class LiveView {
  readonly #scheduler: Scheduler;
  readonly #seats = new Seats();
  #sent: Int32Array;
  #map: Int32Array;
  #timeline: StepView[] = [];
  #steps = 0;
  #promptTokens = 0;
  #generatedTokens = 0;
  #first = true;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    const { blockCount } = scheduler.tables.pool;
    this.#sent = new Int32Array(blockCount);
    this.#map = new Int32Array(blockCount);
  }

  /** A step is committed. */
  stepped({ items }: StepPlan, about: Omit<StepView, 'rides'>): void {
    this.#steps += 1;
    const rides: Ride[] = [];
    for (const item of items) {
      const sampled = sampledTokens(item);
      this.#promptTokens += promptTokens(item);
      this.#generatedTokens += sampled;
      rides.push([this.#seats.of(item.sequence), item.count, sampled]);
    }
    this.#timeline.push({ ...about, rides });
    if (this.#timeline.length > MOST_STEPS) this.#timeline.shift();
  }

  snapshot(nowMs: number): EngineView {
    const { tables, running } = this.#scheduler;
    const { pool } = tables;
    const { queues, counters } = this.#scheduler.stats(nowMs);
    const riders = running.map((sequence) => ({
      ...runningStats(sequence, nowMs),
      seat: this.#seats.of(sequence),
      promptTokens: sequence.promptLength,
      cachedTokens: sequence.cachedTokens,
    }));
    const shared = this.#drawMap();
    const view: EngineView = {
      blockCount: pool.blockCount,
      first: this.#first,
      steps: this.#steps,
      promptTokens: this.#promptTokens,
      generatedTokens: this.#generatedTokens,
      timeline: this.#timeline,
      riders,
      queues,
      waiting: this.#waiting(nowMs),
      blocks: changedRuns(this.#sent, this.#map),
      blockCounts: {
        limit: pool.limit,
        held: pool.heldCount,
        used: pool.usedCount,
        cached: pool.cachedFreeCount,
        shared,
      },
      preemptions: counters.preemptions,
      evictions: pool.evictions,
    };
    this.#begin();
    return view;
  }

  /** What follows counts for the next snapshot. */
  #begin(): void {
    [this.#sent, this.#map] = [this.#map, this.#sent];
    this.#seats.clear();
    this.#timeline = [];
    this.#steps = 0;
    this.#promptTokens = 0;
    this.#generatedTokens = 0;
    this.#first = false;
  }

  /** Returns how many blocks are shared. */
  #drawMap(): number {
    const { pool } = this.#scheduler.tables;
    const map = this.#map;
    const shared = pool.describe(map);
    for (const sequence of this.#scheduler.running) {
      const own = 4 + this.#seats.of(sequence);
      for (const block of sequence.blocks) if (map[block] !== 3) map[block] = own;
    }
    return shared;
  }

  #waiting(nowMs: number): WaitingView[] {
    const deferred = new Set<Sequence>();
    for (const { sequence } of this.#scheduler.deferred()) deferred.add(sequence);
    const { sequence: next, short } = this.#scheduler.next;
    const why = (sequence: Sequence): WaitReason => {
      if (deferred.has(sequence)) return 'prefix';
      if (sequence.state === 'preempted') return 'preempted';
      return sequence === next && short ? 'blocks' : 'queue';
    };
    return mostUrgent(this.#scheduler.waiting(), MOST_WAITING).map((sequence) => ({
      id: sequence.id,
      priority: sequence.priority,
      tokens: sequence.length,
      ageMs: nowMs - sequence.enqueuedMs,
      why: why(sequence),
    }));
  }
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
