// An engine in this very process: for the command line, for tests, and wherever a second process is not wanted.

import type { Backend } from '../compute/backend.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { messageOf } from '../runtime/error-message.ts';
import { Engine, type EngineOptions, type EngineStats } from './engine.ts';
import type { EngineView } from './live/engine-view.ts';
import {
  type LossListener,
  Onlookers,
  type PlacesListener,
  type PrefixListener,
  type StepFollower,
} from './onlookers.ts';
import type { EngineRequest, RequestEvent } from './request.ts';
import { unloadedError } from './request-errors.ts';
import { RequestStreams } from './request-streams.ts';
import type { BlockDemand } from './scheduler/stats.ts';
import type { StepEvent, StepReport } from './step-report.ts';

export class LocalEngine {
  readonly engine: Engine;
  /** It is never replaced. */
  readonly starts = 1;
  readonly #streams = new RequestStreams();
  readonly #onlookers = new Onlookers((watched) => this.engine.setWatched(watched));
  /** Its own, and that of the draft model. */
  readonly #backends: readonly Backend[];
  readonly #running: Promise<void>;
  #failure: string | undefined;
  #closed = false;

  /** The clock measures steps. */
  constructor(backend: Backend, options: EngineOptions, nowMs?: () => number) {
    this.#backends = options.draft === undefined ? [backend] : [backend, options.draft.backend];
    this.engine = new Engine(backend, options, (report) => this.#hear(report), nowMs);
    // A fault of the engine itself ends every request with its message.
    this.#running = this.engine.run().catch((error: unknown) => {
      const message = messageOf(error);
      this.#failure = message;
      this.engine.end({ code: 'engine-failed', message });
    });
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const events = this.#streams.open(request.id, () => this.engine.cancel(request.id));
    this.engine.submit(request);
    return events;
  }

  cancel(id: string): void {
    this.engine.cancel(id);
  }

  async stats(): Promise<EngineStats> {
    return this.engine.stats(Date.now());
  }

  follow(listener: StepFollower): () => void {
    return this.#onlookers.follow(listener);
  }

  watch(watcher: (event: StepEvent) => void): () => void {
    return this.#onlookers.watch(watcher);
  }

  async look(): Promise<EngineView> {
    return this.engine.look(Date.now());
  }

  lookAway(): void {
    this.engine.lookAway();
  }

  onPrefixes(listener: PrefixListener) {
    const stop = this.#onlookers.onPrefixes(listener);
    const recount = () => this.engine.setJournal(true);
    const end = () => {
      stop();
      if (!this.#onlookers.counted) this.engine.setJournal(false);
    };
    recount();
    return { recount, end };
  }

  onPlaces(listener: PlacesListener): () => void {
    return this.#onlookers.onPlaces(listener);
  }

  onLost(listener: LossListener): () => void {
    return this.#onlookers.onLost(listener);
  }

  learn(vocabulary: VocabularyTables): void {
    this.engine.learn(vocabulary);
  }

  allow(blocks: number): void {
    this.engine.allow(blocks);
  }

  onBlocks(listener: (demand: BlockDemand) => void): () => void {
    return this.#onlookers.onBlocks(listener);
  }

  drain(): Promise<void> {
    return this.engine.drain();
  }

  /** Unfinished requests end with an error. */
  async close(): Promise<void> {
    this.engine.end(unloadedError);
    await this.#running;
    if (this.#closed) return;
    this.#closed = true;
    for (const backend of this.#backends) backend.close();
  }

  #hear(report: StepReport): void {
    this.#streams.deliver(report.events);
    this.#onlookers.tell(report);
  }
}
