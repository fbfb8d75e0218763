// Server-sent events on a raw response: one `data:` line an event, no faster than the client reads, and a
// comment now and then while there is nothing to say.

import type { ServerResponse } from 'node:http';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
};

const LAST_WORD_MS = 5000;

export type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

export class SseStream {
  readonly #response: ServerResponse;
  readonly #keepAlive: NodeJS.Timeout;
  readonly #signal: AbortSignal | undefined;

  /** An abort ends every wait for the client. */
  constructor(response: ServerResponse, extra: Headers, keepAliveMs: number, signal?: AbortSignal) {
    this.#response = response;
    this.#signal = signal;
    const given = Object.entries(extra).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    response.writeHead(200, { ...Object.fromEntries(given), ...headers });
    response.flushHeaders();
    this.#keepAlive = setInterval(() => this.#comment(), keepAliveMs).unref();
    response.once('close', () => clearInterval(this.#keepAlive));
  }

  /** Resolves when the client has taken enough to go on, or has left. */
  async send(data: unknown, event?: string): Promise<void> {
    const name = event === undefined ? '' : `event: ${event}\n`;
    await this.#write(`${name}data: ${JSON.stringify(data)}\n\n`);
  }

  /** The mark by which OpenAI's clients know that nothing is missing. */
  async done(): Promise<void> {
    await this.#write('data: [DONE]\n\n');
    this.end();
  }

  /** Says what went wrong and ends; a client that does not read even that is cut off. */
  fail(data: unknown): void {
    const response = this.#response;
    if (!response.destroyed && !response.writableEnded) response.write(`data: ${JSON.stringify(data)}\n\n`);
    this.end();
    const timer = setTimeout(() => response.destroy(), LAST_WORD_MS).unref();
    response.once('close', () => clearTimeout(timer));
  }

  end(): void {
    clearInterval(this.#keepAlive);
    this.#response.end();
  }

  async #write(text: string): Promise<void> {
    const response = this.#response;
    if (response.destroyed || response.writableEnded) return;
    this.#keepAlive.refresh();
    if (response.write(text) || response.destroyed || this.#signal?.aborted) return;
    await new Promise<void>((resolve) => {
      const go = () => {
        response.off('drain', go);
        response.off('close', go);
        this.#signal?.removeEventListener('abort', go);
        resolve();
      };
      response.once('drain', go);
      response.once('close', go);
      this.#signal?.addEventListener('abort', go);
    });
  }

  #comment(): void {
    // A client that does not read is not helped by more to read.
    if (!this.#response.writableNeedDrain && !this.#response.destroyed)
      this.#response.write(': keep-alive\n\n');
  }
}
