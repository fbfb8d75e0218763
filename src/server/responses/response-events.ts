// The events of a response that no client waits for, for those that stream it: from any event on, while it runs and for a while
// after.

import type { FastifyReply } from 'fastify';
import { responsePaused } from '../http/errors.ts';
import { namedEvents, SseStream } from '../http/sse.ts';
import type { StreamMessage } from '../jobs/answer-shape.ts';

/** For so long after its end a client may fetch what it has missed. */
const KEEP_MS = 900_000;
/** Of those that have ended. */
const MAX_BYTES = 64 * 1024 * 1024;

export class ResponseEvents {
  /** Framed; the place of each is its sequence number. */
  readonly #events: string[] = [];
  #bytes = 0;
  #end: 'whole' | 'paused' | undefined;
  readonly #waiting = new Set<() => void>();

  get bytes(): number {
    return this.#bytes;
  }

  add(messages: readonly StreamMessage[]): void {
    for (const { data, event } of messages) {
      // Now: objects that are shown grow with the answer.
      const framed = namedEvents.frame(data, event);
      this.#events.push(framed);
      this.#bytes += framed.length;
    }
    this.#wake();
  }

  /** `paused`: the next process has the rest. */
  end(how: 'whole' | 'paused'): void {
    this.#end = how;
    this.#wake();
  }

  /** Sends what comes after that event, until the end or until the client leaves. */
  async send(reply: FastifyReply, after: number, keepAliveMs: number): Promise<void> {
    reply.hijack();
    const { raw } = reply;
    const stream = new SseStream(raw, reply.getHeaders(), keepAliveMs, undefined, namedEvents);
    for (let at = after + 1; !raw.destroyed; ) {
      const event = this.#events[at];
      if (event !== undefined) {
        await stream.sendText(event);
        at++;
      } else if (this.#end === undefined) await this.#more(raw);
      else if (this.#end === 'whole') return stream.done();
      else {
        const { message, code } = responsePaused(at - 1);
        return stream.fail({ event: 'error', data: { type: 'error', code, message, param: null } });
      }
    }
  }

  #more(raw: FastifyReply['raw']): Promise<void> {
    return new Promise((resolve) => {
      const go = () => {
        this.#waiting.delete(go);
        raw.off('close', go);
        resolve();
      };
      this.#waiting.add(go);
      raw.once('close', go);
    });
  }

  #wake(): void {
    for (const go of [...this.#waiting]) go();
  }
}

/** Events of responses that have ended, the oldest first. */
export class EndedEvents {
  readonly #ended = new Map<
    string,
    { readonly keyId: string; readonly events: ResponseEvents; readonly endMs: number }
  >();
  #bytes = 0;

  add(keyId: string, id: string, events: ResponseEvents): void {
    this.#ended.set(id, { keyId, events, endMs: performance.now() });
    this.#bytes += events.bytes;
    for (const [oldest, { endMs, events: one }] of this.#ended) {
      if (this.#bytes <= MAX_BYTES && performance.now() - endMs < KEEP_MS) return;
      this.#ended.delete(oldest);
      this.#bytes -= one.bytes;
    }
  }

  find(keyId: string, id: string): ResponseEvents | undefined {
    const found = this.#ended.get(id);
    const isLive = found?.keyId === keyId && performance.now() - found.endMs < KEEP_MS;
    return isLive ? found.events : undefined;
  }
}
