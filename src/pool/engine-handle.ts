// How everything above the engine speaks to one, wherever it runs.

import type { EngineStats } from '../engine/engine.ts';
import type { EngineView } from '../engine/live/engine-view.ts';
import type { LossListener, PlacesListener, PrefixListener, StepFollower } from '../engine/onlookers.ts';
import type { EngineRequest, RequestEvent } from '../engine/request.ts';
import type { BlockDemand } from '../engine/scheduler/stats.ts';
import type { StepEvent } from '../engine/step-report.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';

export interface PrefixCount {
  /** All that is in the cache is told again. */
  recount(): void;
  end(): void;
}

export interface EngineHandle {
  /** Why the engine has given up for good, once it has. */
  readonly failure: string | undefined;
  /** Engines that have served so far, this one included: one more after each that was lost. */
  readonly starts: number;
  /** The request's events until it has ended. Leaving the loop early cancels it. */
  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void>;
  /** Takes effect before the next step; the stream then ends with `cancelled`. */
  cancel(id: string): void;
  stats(): Promise<EngineStats>;
  /** What tokens spell: before the first request with a grammar. Saying it again changes nothing. */
  learn(vocabulary: VocabularyTables): void;
  /** Every step in brief, until the returned function is called: for metrics. Costs no message of its own. */
  follow(listener: StepFollower): () => void;
  /** Every step with the scheduler's full stats, until the returned function is called. */
  watch(watcher: (event: StepEvent) => void): () => void;
  /** What it does now, and has done since the last look; from the first one on it gathers, until `lookAway`. */
  look(): Promise<EngineView>;
  lookAway(): void;
  /** Hears of each engine that was lost and is replaced: the next knows of no look. */
  onLost(listener: LossListener): () => void;
  /** Where those that wait are, now and then while any do. Absent where that is not known. */
  onPlaces?(listener: PlacesListener): () => void;
  /** What enters and leaves its prefix cache; all that is in it first, and again whenever `recount` is called. */
  onPrefixes(listener: PrefixListener): PrefixCount;
  /** How many KV blocks it may hold. */
  allow(blocks: number): void;
  /** Hears where the engine stands with its blocks, at once and after each change. */
  onBlocks(listener: (demand: BlockDemand) => void): () => void;
  /** Refuses new requests and resolves when the running ones have ended. */
  drain(): Promise<void>;
  /** Ends the engine and gives its memory back; unfinished requests end with an error. */
  close(): Promise<void>;
}
