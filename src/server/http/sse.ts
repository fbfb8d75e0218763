// Streams messages on a raw response, no faster than the client reads: as server-sent events with keep-alive comments, or as
// lines of JSON.

import type { ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';

const headers = {
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
};

const LAST_WORD_MS = 5000;
/** After this many messages other requests get a turn, however fast the client reads. */
const MESSAGES_AT_ONCE = 128;

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

interface StreamedMessage {
  readonly event?: string;
  readonly data: unknown;
}

export interface Framing {
  readonly contentType: string;
  frame(data: unknown, event: string | undefined, id?: string): string;
  /** Follows the last message, so that clients know that the stream is complete. */
  readonly last: string;
  readonly filler: string;
  /** A message that clients ignore; empty where the framing has none. */
  comment(text: string): string;
}

const asEvents = {
  contentType: 'text/event-stream; charset=utf-8',
  frame: (data: unknown, event: string | undefined, id?: string) =>
    `${id === undefined ? '' : `id: ${id}\n`}${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`,
  filler: ': keep-alive\n\n',
  comment: (text: string) => `: ${text}\n\n`,
};

export const doneEvents: Framing = { ...asEvents, last: 'data: [DONE]\n\n' };
/** The name of an event says whether it is the last. */
export const namedEvents: Framing = { ...asEvents, last: '' };
export const jsonLines: Framing = {
  contentType: 'application/x-ndjson',
  frame: (data) => `${JSON.stringify(data)}\n`,
  last: '',
  filler: '',
  comment: () => '',
};

export class SseStream {
  readonly #framing: Framing;
  readonly #response: ServerResponse;
  readonly #keepAlive: NodeJS.Timeout;
  readonly #signal: AbortSignal | undefined;
  #written = 0;

  /** An abort ends every wait for the client. */
  constructor(
    response: ServerResponse,
    extra: Headers,
    keepAliveMs: number,
    signal?: AbortSignal,
    framing: Framing = doneEvents,
  ) {
    this.#framing = framing;
    this.#response = response;
    this.#signal = signal;
    const given = Object.entries(extra).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    response.writeHead(200, {
      ...Object.fromEntries(given),
      ...headers,
      'content-type': framing.contentType,
    });
    response.flushHeaders();
    this.#keepAlive = setInterval(() => this.#writeAside(framing.filler), keepAliveMs).unref();
    response.once('close', () => clearInterval(this.#keepAlive));
  }

  /** Resolves when the client has read enough for more to be sent, or has left. */
  async send(data: unknown, event?: string, id?: string): Promise<void> {
    await this.#write(this.#framing.frame(data, event, id));
  }

  sendFramed(bytes: Buffer): void {
    void this.#write(bytes);
  }

  /** As `send`, with a message that is framed already. */
  async sendText(framed: string): Promise<void> {
    await this.#write(framed);
  }

  async done(): Promise<void> {
    if (this.#framing.last !== '') await this.#write(this.#framing.last);
    this.end();
  }

  /** Sends what went wrong and ends the stream; a client that does not read even that is cut off. */
  fail(...messages: readonly StreamedMessage[]): void {
    const response = this.#response;
    if (!response.destroyed && !response.writableEnded) {
      for (const { data, event } of messages) response.write(this.#framing.frame(data, event));
    }
    this.end();
    const timer = setTimeout(() => response.destroy(), LAST_WORD_MS).unref();
    response.once('close', () => clearTimeout(timer));
  }

  end(): void {
    clearInterval(this.#keepAlive);
    this.#response.end();
  }

  comment(text: string): void {
    this.#writeAside(this.#framing.comment(text));
  }

  /** Skipped while the client does not read: more bytes would not help it. */
  #writeAside(framed: string): void {
    if (framed === '' || this.#response.writableNeedDrain) return;
    if (!this.#response.destroyed && !this.#response.writableEnded) this.#response.write(framed);
  }

  async #write(text: string | Buffer): Promise<void> {
    const response = this.#response;
    if (response.destroyed || response.writableEnded) return;
    this.#keepAlive.refresh();
    const taken = response.write(text);
    if (++this.#written % MESSAGES_AT_ONCE === 0) await setImmediate();
    if (taken || response.destroyed || this.#signal?.aborted || !response.writableNeedDrain) return;
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
}
