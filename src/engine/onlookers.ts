// Who looks on while an engine works: hears the steps in brief, in full, or where its blocks stand. Full stats cost
// something, so the engine is told whether anyone wants them.

import type { PrefixNews } from './cache/prefix-journal.ts';
import type { BlockDemand } from './scheduler/stats.ts';
import type { PrefixLookup, StepEvent, StepReport, StepSummary } from './step-report.ts';
import type { QueuePlace } from './wait-estimates.ts';

export type PrefixListener = (news: PrefixNews) => void;

export type PlacesListener = (places: readonly QueuePlace[]) => void;

export type StepFollower = (step: StepSummary, lookups: readonly PrefixLookup[]) => void;

/** `died`: it was not put aside in good order. */
export type LossListener = (died: boolean) => void;

export class Onlookers {
  readonly #followers = new Set<StepFollower>();
  readonly #lossListeners = new Set<LossListener>();
  readonly #watchers = new Set<(event: StepEvent) => void>();
  readonly #blockListeners = new Set<(demand: BlockDemand) => void>();
  readonly #placesListeners = new Set<PlacesListener>();
  readonly #prefixListeners = new Set<PrefixListener>();
  readonly #setWatched: (watched: boolean) => void;
  #blocks: BlockDemand | undefined;

  /** `setWatched` is called when the first watcher comes and when the last one goes. */
  constructor(setWatched: (watched: boolean) => void) {
    this.#setWatched = setWatched;
  }

  get watched(): boolean {
    return this.#watchers.size > 0;
  }

  /** Each of these returns what ends it. */
  follow(listener: StepFollower): () => void {
    this.#followers.add(listener);
    return () => this.#followers.delete(listener);
  }

  watch(watcher: (event: StepEvent) => void): () => void {
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) this.#setWatched(true);
    return () => {
      if (this.#watchers.delete(watcher) && !this.watched) this.#setWatched(false);
    };
  }

  /** Whether anybody keeps count of prefixes. */
  get counted(): boolean {
    return this.#prefixListeners.size > 0;
  }

  onPrefixes(listener: PrefixListener): () => void {
    this.#prefixListeners.add(listener);
    return () => this.#prefixListeners.delete(listener);
  }

  onPlaces(listener: PlacesListener): () => void {
    this.#placesListeners.add(listener);
    return () => this.#placesListeners.delete(listener);
  }

  onLost(listener: LossListener): () => void {
    this.#lossListeners.add(listener);
    return () => this.#lossListeners.delete(listener);
  }

  /** The engine is gone, and another one comes. */
  lost(died: boolean): void {
    for (const listener of this.#lossListeners) listener(died);
  }

  /** Hears the present state at once, where it is known. */
  onBlocks(listener: (demand: BlockDemand) => void): () => void {
    this.#blockListeners.add(listener);
    if (this.#blocks !== undefined) listener(this.#blocks);
    return () => this.#blockListeners.delete(listener);
  }

  tell({ step, stats, blocks, prefixes, places, lookups = [] }: StepReport): void {
    if (places !== undefined) for (const listener of this.#placesListeners) listener(places);
    if (prefixes !== undefined) for (const listener of this.#prefixListeners) listener(prefixes);
    this.#blocks = blocks;
    for (const listener of this.#blockListeners) listener(blocks);
    if (step === undefined) return;
    for (const listener of this.#followers) listener(step, lookups);
    if (stats === undefined) return;
    for (const watcher of this.#watchers) watcher({ ...step, stats });
  }
}
