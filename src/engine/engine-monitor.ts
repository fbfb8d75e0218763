// Monitoring of an engine: its steps, blocks, queue and prefixes are published to subscribers. What costs the engine something
// is switched on only while somebody is subscribed to it.

import type { PrefixEvents } from './cache/prefix-events.ts';
import type { ImageStats } from './images/image-stats.ts';
import type { EngineSnapshot } from './live/snapshot.ts';
import type { BlockDemand } from './scheduler/stats.ts';
import type { PrefixLookup, StepEvent, StepReport, StepSummary } from './step-report.ts';
import type { StoredKeys } from './tiers/stored-keys.ts';
import type { TierStats } from './tiers/tier-stats.ts';
import type { EstimatedWait } from './wait-estimates.ts';

/** Each member that a subscriber has is called until its subscription ends. */
export interface EngineSubscriber {
  /** Every step in brief: for metrics. Costs no message of its own. */
  step?(step: StepSummary, lookups: readonly PrefixLookup[]): void;
  /** Every step with the scheduler's full stats. */
  stats?(event: StepEvent): void;
  /** Where the engine stands with its blocks, at once if that is known, and after each change. */
  blocks?(demand: BlockDemand): void;
  /** Where the model has a vision tower: its counts, after each change, of pieces twice a second. Those of an engine begin anew with it. */
  images?(stats: ImageStats): void;
  /** The same of the tiers below its memory, where there are any: at once if they are known, now and then while they change. */
  tiers?(stats: TierStats): void;
  /** Where waiting requests are, now and then while any wait. */
  queuePositions?(positions: readonly EstimatedWait[]): void;
  /** What enters and leaves the prefix cache; all that is in it first, and again after `resendPrefixes`. */
  prefixes?(news: PrefixEvents): void;
  /** What enters and leaves the tiers below its memory; all that they hold first, in pieces. */
  stored?(news: StoredKeys): void;
  /** An engine was lost and is replaced by one that knows of no snapshot; `died`: it was not put aside in good order. */
  lost?(died: boolean): void;
}

export interface EngineSubscription {
  /** What the engine does now, and has done since the last snapshot; from the first one on it gathers. */
  snapshot(): Promise<EngineSnapshot>;
  resendPrefixes(): void;
  end(): void;
}

export interface EngineMonitor {
  /** Engines that have served so far, this one included: one more after each that was lost. */
  readonly starts: number;
  subscribe(subscriber: EngineSubscriber): EngineSubscription;
}

/** The switches of an engine. */
interface MonitoredEngine {
  reportStats(on: boolean): void;
  /** Said again, all prefixes are sent again. */
  reportPrefixes(on: boolean): void;
  /** Said again, all that tiers hold is sent again. */
  reportStored(on: boolean): void;
  snapshot(): Promise<EngineSnapshot>;
  endSnapshots(): void;
}

export class EnginePublisher implements EngineMonitor {
  readonly #engine: MonitoredEngine;
  readonly #subscribers = new Set<EngineSubscriber>();
  #blocks: BlockDemand | undefined;
  #tiers: TierStats | undefined;
  #starts = 1;

  constructor(engine: MonitoredEngine) {
    this.#engine = engine;
  }

  get starts(): number {
    return this.#starts;
  }

  subscribe(subscriber: EngineSubscriber): EngineSubscription {
    const hadStats = this.#has('stats');
    this.#subscribers.add(subscriber);
    if (this.#has('stats') && !hadStats) this.#engine.reportStats(true);
    if (subscriber.prefixes !== undefined) this.#engine.reportPrefixes(true);
    if (subscriber.stored !== undefined) this.#engine.reportStored(true);
    if (this.#blocks !== undefined) subscriber.blocks?.(this.#blocks);
    if (this.#tiers !== undefined) subscriber.tiers?.(this.#tiers);
    let snapshots = false;
    return {
      snapshot: () => {
        snapshots = true;
        return this.#engine.snapshot();
      },
      resendPrefixes: () => this.#engine.reportPrefixes(true),
      end: () => {
        if (!this.#subscribers.delete(subscriber)) return;
        if (snapshots) this.#engine.endSnapshots();
        if (subscriber.stats !== undefined && !this.#has('stats')) this.#engine.reportStats(false);
        if (subscriber.prefixes !== undefined && !this.#has('prefixes')) this.#engine.reportPrefixes(false);
        if (subscriber.stored !== undefined && !this.#has('stored')) this.#engine.reportStored(false);
      },
    };
  }

  publish({
    step,
    stats,
    blocks,
    prefixes,
    stored = [],
    places,
    images,
    tiers,
    lookups = [],
  }: StepReport): void {
    this.#blocks = blocks;
    this.#tiers = tiers ?? this.#tiers;
    for (const subscriber of this.#subscribers) {
      if (places !== undefined) subscriber.queuePositions?.(places);
      if (images !== undefined) subscriber.images?.(images);
      if (tiers !== undefined) subscriber.tiers?.(tiers);
      if (prefixes !== undefined) subscriber.prefixes?.(prefixes);
      for (const news of stored) subscriber.stored?.(news);
      subscriber.blocks?.(blocks);
      if (step === undefined) continue;
      subscriber.step?.(step, lookups);
      if (stats !== undefined) subscriber.stats?.({ ...step, stats });
    }
  }

  /** The engine is gone, and another one comes. */
  lost(died: boolean): void {
    this.#starts += 1;
    this.#tiers = undefined;
    for (const subscriber of this.#subscribers) subscriber.lost?.(died);
  }

  /** Another engine is there, which reports nothing yet. */
  resume(): void {
    if (this.#has('stats')) this.#engine.reportStats(true);
    if (this.#has('prefixes')) this.#engine.reportPrefixes(true);
    if (this.#has('stored')) this.#engine.reportStored(true);
  }

  #has(member: 'stats' | 'prefixes' | 'stored'): boolean {
    return [...this.#subscribers].some((subscriber) => subscriber[member] !== undefined);
  }
}
