// A model's engines on all workers, spoken to like one engine.

import type { EngineStats } from '../../engine/engine.ts';
import type { EngineView } from '../../engine/live/engine-view.ts';
import type { LossListener } from '../../engine/onlookers.ts';
import type { EngineRequest, RequestEvent } from '../../engine/request.ts';
import type { VocabularyTables } from '../../grammar/vocabulary.ts';
import type { EngineHandle, PrefixCount } from '../../pool/engine-handle.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { AskedModel } from './open-answer.ts';

const nothing = () => {};

export class FleetEngine implements EngineHandle {
  readonly failure = undefined;
  readonly starts = 1;
  readonly #model: AskedModel;
  readonly #dispatcher: Dispatcher;
  readonly #stats: () => Promise<EngineStats>;

  /** `stats`: of all its engines together. */
  constructor(model: AskedModel, dispatcher: Dispatcher, stats: () => Promise<EngineStats>) {
    this.#model = model;
    this.#dispatcher = dispatcher;
    this.#stats = stats;
  }

  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    return this.#dispatcher.submit(this.#model, request);
  }

  cancel(id: string): void {
    this.#dispatcher.cancel(id);
  }

  stats(): Promise<EngineStats> {
    return this.#stats();
  }

  learn(vocabulary: VocabularyTables): void {
    this.#dispatcher.learn(this.#model.name, vocabulary);
  }

  /** Steps are seen on the workers, each of which counts its own. */
  follow(): () => void {
    return nothing;
  }

  watch(): () => void {
    return nothing;
  }

  look(): Promise<EngineView> {
    return Promise.reject(new Error('steps and blocks are seen on each worker, at its own address'));
  }

  lookAway(): void {}

  onLost(_listener: LossListener): () => void {
    return nothing;
  }

  /** Told by each worker for itself. */
  onPrefixes(): PrefixCount {
    return { recount: nothing, end: nothing };
  }

  /** Workers share their own memory out. */
  allow(): void {}

  onBlocks(): () => void {
    return nothing;
  }

  drain(): Promise<void> {
    return this.#dispatcher.idle();
  }

  /** The engines belong to their workers. */
  async close(): Promise<void> {}
}
