// Gives each request its own events: sorts what a step reports into one async iterable per request.

import type { RequestEvent } from './request.ts';

interface Stream {
  readonly events: RequestEvent[];
  open: boolean;
  wake: (() => void) | undefined;
}

export class RequestStreams {
  readonly #streams = new Map<string, Stream>();

  get size(): number {
    return this.#streams.size;
  }

  has(id: string): boolean {
    return this.#streams.has(id);
  }

  /** The events of a request until it has ended; leaving early calls `abandon`. */
  open(id: string, abandon: () => void): AsyncGenerator<RequestEvent, void, void> {
    if (this.#streams.has(id)) throw new Error(`request ${id} is running already`);
    const stream: Stream = { events: [], open: true, wake: undefined };
    this.#streams.set(id, stream);
    return this.#read(id, stream, abandon);
  }

  deliver(events: readonly RequestEvent[]): void {
    for (const event of events) {
      const stream = this.#streams.get(event.id);
      if (stream === undefined) continue;
      stream.events.push(event);
      if (event.kind === 'finish') stream.open = false;
      stream.wake?.();
    }
  }

  async *#read(id: string, stream: Stream, abandon: () => void): AsyncGenerator<RequestEvent, void, void> {
    try {
      while (stream.open || stream.events.length > 0) {
        if (stream.events.length === 0) {
          await new Promise<void>((resolve) => {
            stream.wake = resolve;
          });
          stream.wake = undefined;
        }
        yield* stream.events.splice(0);
      }
    } finally {
      this.#streams.delete(id);
      if (stream.open) abandon();
    }
  }
}
