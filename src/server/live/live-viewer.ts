// One who looks on. What it cannot take now it does not get, so that nothing gathers here; once it reads again it begins
// with the whole anew. One that takes nothing for too long is cut off.

import type { ServerResponse } from 'node:http';
import type { SseStream } from '../http/sse.ts';

export class LiveViewer {
  readonly #response: ServerResponse;
  readonly #stream: SseStream;
  readonly #patienceMs: number;
  #knowsWhole = false;
  #stuckSinceMs: number | undefined;

  constructor(response: ServerResponse, stream: SseStream, patienceMs: number) {
    this.#response = response;
    this.#stream = stream;
    this.#patienceMs = patienceMs;
  }

  tell(change: Buffer, whole: () => Buffer, nowMs: number): void {
    if (this.#response.writableNeedDrain) {
      this.#knowsWhole = false;
      this.#stuckSinceMs ??= nowMs;
      if (nowMs - this.#stuckSinceMs >= this.#patienceMs) this.#response.destroy();
      return;
    }
    this.#stuckSinceMs = undefined;
    this.#stream.sendFramed(this.#knowsWhole ? change : whole());
    this.#knowsWhole = true;
  }

  end(): void {
    this.#stream.end();
  }
}
