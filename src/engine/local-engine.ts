// An engine in this very process: for the command line, for tests, and wherever a second process is not wanted.

import type { Backend } from '../compute/backend.ts';
import { Engine, type EngineOptions, type EngineStats } from './engine.ts';
import type { EngineRequest, RequestEvent } from './request.ts';
import { RequestStreams } from './request-streams.ts';

export class LocalEngine {
  readonly engine: Engine;
  readonly #streams = new RequestStreams();
  readonly #backend: Backend;
  readonly #running: Promise<void>;

  constructor(backend: Backend, options: EngineOptions) {
    this.#backend = backend;
    this.engine = new Engine(backend, options, (events) => this.#streams.deliver(events));
    this.#running = this.engine.run();
    // Whoever closes the engine sees the error; until then it must not end the process.
    this.#running.catch(() => {});
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

  stats(): EngineStats {
    return this.engine.stats(Date.now());
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
