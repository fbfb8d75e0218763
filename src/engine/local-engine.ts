// An engine in this very process: for the command line, for tests, and wherever a second process is not wanted.

import type { Backend } from '../compute/backend.ts';
import { Engine, type EngineOptions, type EngineStats, type StepEvent } from './engine.ts';
import type { EngineRequest, RequestEvent } from './request.ts';
import { RequestStreams } from './request-streams.ts';

export class LocalEngine {
  readonly engine: Engine;
  readonly #streams = new RequestStreams();
  readonly #backend: Backend;
  readonly #running: Promise<void>;
  #failure: string | undefined;

  constructor(backend: Backend, options: EngineOptions) {
    this.#backend = backend;
    this.engine = new Engine(backend, options, (events) => this.#streams.deliver(events));
    this.#running = this.engine.run();
    // A fault of the engine itself reaches whoever reads a stream, and whoever closes the engine.
    this.#running.catch((error: Error) => {
      this.#failure = error.message;
      this.#streams.fail(error);
    });
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const choices = request.resumed?.length ?? request.choices;
    const events = this.#streams.open(request.id, choices, () => this.engine.cancel(request.id));
    this.engine.submit(request);
    return events;
  }

  cancel(id: string): void {
    this.engine.cancel(id);
  }

  async stats(): Promise<EngineStats> {
    return this.engine.stats(Date.now());
  }

  watch(watcher: (event: StepEvent) => void): () => void {
    return this.engine.watch(watcher);
  }

  drain(): Promise<void> {
    return this.engine.drain();
  }

  async close(): Promise<void> {
    this.engine.close();
    try {
      await this.#running;
    } finally {
      this.#backend.close();
    }
  }
}
