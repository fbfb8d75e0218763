// One client of /live. What it cannot take now it does not get, so that nothing piles up here; once it reads again it is
// sent a new snapshot. A client that takes nothing for too long is cut off.

import type { ServerResponse } from 'node:http';
import type { SseStream } from '../http/sse.ts';

export class LiveViewer {
  readonly #response: ServerResponse;
  readonly #stream: SseStream;
  readonly #timeoutMs: number;
  #hasSnapshot = false;
  #stuckSinceMs: number | undefined;

  constructor(response: ServerResponse, stream: SseStream, timeoutMs: number) {
    this.#response = response;
    this.#stream = stream;
    this.#timeoutMs = timeoutMs;
  }

  send(change: Buffer, whole: () => Buffer, nowMs: number): void {
    if (this.#response.writableNeedDrain) {
      this.#hasSnapshot = false;
      this.#stuckSinceMs ??= nowMs;
      if (nowMs - this.#stuckSinceMs >= this.#timeoutMs) this.#response.destroy();
      return;
    }
    this.#stuckSinceMs = undefined;
    this.#stream.sendFramed(this.#hasSnapshot ? change : whole());
    this.#hasSnapshot = true;
  }

  end(): void {
    this.#stream.end();
  }
}
