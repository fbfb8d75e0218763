// All engines of a model in a fleet, behind the interface of one engine.

import type { EngineStats } from '../../engine/engine.ts';
import type { EngineClient, EngineLoad } from '../../engine/engine-client.ts';
import type { EngineRequest, RequestEvent } from '../../engine/request.ts';
import type { VocabularyTables } from '../../grammar/vocabulary.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { AskedModel } from './open-answer.ts';

export class FleetEngine implements EngineClient {
  readonly failure = undefined;
  readonly #model: AskedModel;
  readonly #dispatcher: Dispatcher;
  readonly #stats: () => Promise<EngineStats>;
  readonly knownLoad: () => EngineLoad | undefined;

  constructor(
    model: AskedModel,
    dispatcher: Dispatcher,
    stats: () => Promise<EngineStats>,
    knownLoad: () => EngineLoad | undefined,
  ) {
    this.#model = model;
    this.#dispatcher = dispatcher;
    this.#stats = stats;
    this.knownLoad = knownLoad;
  }

  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    return this.#dispatcher.submit(this.#model, request);
  }

  accepted(id: string): Promise<void> {
    return this.#dispatcher.accepted(id);
  }

  cancel(id: string): void {
    this.#dispatcher.cancel(id);
  }

  stats(): Promise<EngineStats> {
    return this.#stats();
  }

  setVocabulary(vocabulary: VocabularyTables): void {
    this.#dispatcher.setVocabulary(this.#model.name, vocabulary);
  }

  drain(): Promise<void> {
    return this.#dispatcher.idle();
  }

  /** The engines belong to their workers. */
  async close(): Promise<void> {}
}
