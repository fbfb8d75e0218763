// An engine in this very process: for the command line, for tests, and wherever a second process is not wanted.

import type { Backend } from '../compute/backend.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { messageOf } from '../runtime/error-message.ts';
import { Engine, type EngineOptions, type EngineStats } from './engine.ts';
import type { EngineClient } from './engine-client.ts';
import { EnginePublisher } from './engine-monitor.ts';
import type { EngineRequest, RequestEvent } from './request.ts';
import { unloadedError } from './request-errors.ts';
import { RequestStreams } from './request-streams.ts';
import type { SlotAction, SlotResult } from './slots/slot-action.ts';
import type { StepReport } from './step-report.ts';

export class LocalEngine implements EngineClient {
  readonly engine: Engine;
  readonly monitor = new EnginePublisher({
    reportStats: (on) => this.engine.reportStats(on),
    reportPrefixes: (on) => this.engine.reportPrefixes(on),
    reportStored: (on) => this.engine.reportStored(on),
    snapshot: async () => this.engine.snapshot(Date.now()),
    endSnapshots: () => this.engine.endSnapshots(),
  });
  readonly #streams = new RequestStreams();
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

  actOnSlot(action: SlotAction): Promise<SlotResult> {
    return this.engine.actOnSlot(action);
  }

  setVocabulary(vocabulary: VocabularyTables): void {
    this.engine.setVocabulary(vocabulary);
  }

  drain(): Promise<void> {
    return this.engine.drain();
  }

  /** Unfinished requests end with an error. */
  async close(): Promise<void> {
    this.engine.end(unloadedError);
    await this.#running;
    await this.engine.whenQuiet();
    if (this.#closed) return;
    this.#closed = true;
    for (const backend of this.#backends) backend.close();
  }

  #hear(report: StepReport): void {
    this.#streams.deliver(report.events);
    this.monitor.publish(report);
  }
}
