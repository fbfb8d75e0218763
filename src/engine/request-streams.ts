// Gives each request its own events: sorts what a step reports into one async iterable per request.

import type { RequestEvent } from './request.ts';

interface Stream {
  readonly events: RequestEvent[];
  /** Choices that have not ended. */
  open: number;
  wake: (() => void) | undefined;
  failure: Error | undefined;
}

export class RequestStreams {
  readonly #streams = new Map<string, Stream>();

  get size(): number {
    return this.#streams.size;
  }

  /** The events of a request until all its choices have ended; leaving early calls `abandon`. */
  open(id: string, choices: number, abandon: () => void): AsyncGenerator<RequestEvent, void, void> {
    if (this.#streams.has(id)) throw new Error(`request ${id} is running already`);
    const stream: Stream = { events: [], open: choices, wake: undefined, failure: undefined };
    this.#streams.set(id, stream);
    return this.#read(id, stream, abandon);
  }

  deliver(events: readonly RequestEvent[]): void {
    for (const event of events) {
      const stream = this.#streams.get(event.id);
      if (stream === undefined) continue;
      stream.events.push(event);
      if (event.kind === 'finish') stream.open--;
      stream.wake?.();
    }
  }

  /** The engine itself has failed: every open stream throws, after what was delivered before. */
  fail(error: Error): void {
    for (const stream of this.#streams.values()) {
      stream.failure = error;
      stream.wake?.();
    }
  }

  async *#read(id: string, stream: Stream, abandon: () => void): AsyncGenerator<RequestEvent, void, void> {
    try {
      while (stream.open > 0 || stream.events.length > 0) {
        const events = stream.events.splice(0);
        if (events.length === 0) {
          if (stream.failure !== undefined) throw stream.failure;
          await new Promise<void>((resolve) => {
            stream.wake = resolve;
          });
          stream.wake = undefined;
        }
        yield* events;
      }
    } finally {
      this.#streams.delete(id);
      if (stream.open > 0) abandon();
    }
  }
}
