// Events for a client that may be too slow: what it cannot take is dropped and counted, so that nothing piles up here. A
// client that takes nothing for too long is cut off.

import type { ServerResponse } from 'node:http';
import type { SseStream } from './sse.ts';

export class LossyStream {
  readonly #response: ServerResponse;
  readonly #stream: SseStream;
  readonly #timeoutMs: number;
  #dropped = 0;
  #stuckSinceMs: number | undefined;

  constructor(response: ServerResponse, stream: SseStream, timeoutMs: number) {
    this.#response = response;
    this.#stream = stream;
    this.#timeoutMs = timeoutMs;
    response.on('drain', () => {
      this.#stuckSinceMs = undefined;
    });
  }

  /** The first event after a gap is preceded by one that says how many are missing. */
  send(data: unknown, event: string): void {
    if (this.#response.writableNeedDrain) {
      this.#dropped++;
      this.#stuckSinceMs ??= performance.now();
      return;
    }
    if (this.#dropped > 0) void this.#stream.send({ count: this.#dropped }, 'dropped');
    this.#dropped = 0;
    void this.#stream.send(data, event);
  }

  cutOffIfStuck(): void {
    if (this.#stuckSinceMs === undefined) return;
    if (performance.now() - this.#stuckSinceMs >= this.#timeoutMs) this.#response.destroy();
  }
}
