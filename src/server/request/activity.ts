// The requests that run, and how each can be ended from outside: the client leaves, its deadline passes, its key is
// revoked, the server closes.

import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { runAfter } from '../../runtime/timers.ts';
import { badRequest, ClientLeft, deadlineExceeded, endedByShutdown } from '../http/errors.ts';

const TIMEOUT_HEADER = 'x-chairlift-timeout-ms';

interface Lifetime {
  readonly signal: AbortSignal;
  abort(reason: Error): void;
  end(): void;
}

/** A request that is ended has this long to record what it used, and to send the reason. */
const SETTLE_MS = 5000;

export class Activity {
  readonly #running = new Map<FastifyRequest, AbortController>();
  /** Responses that are not sent completely, including those that need no engine, such as uploads. */
  readonly #open = new Set<ServerResponse>();
  readonly #whenEmpty: (() => void)[] = [];
  #draining = false;
  #cutOff = false;

  get draining(): boolean {
    return this.#draining;
  }

  get running(): number {
    return this.#running.size;
  }

  awaitSent(response: ServerResponse): void {
    // A client that left while its key was looked up emits no further close event.
    if (response.destroyed) return;
    this.#open.add(response);
    response.once('close', () => {
      this.#open.delete(response);
      this.#settle();
    });
  }

  begin(request: FastifyRequest, reply: FastifyReply, longestMs: number): Lifetime {
    const limitMs = timeoutOf(request, longestMs);
    const controller = new AbortController();
    const leave = () => {
      if (!reply.raw.writableEnded) controller.abort(new ClientLeft());
    };
    const timer = runAfter(limitMs, () => controller.abort(deadlineExceeded(limitMs)));
    reply.raw.once('close', leave);
    // A client that left while the request was being read emits no further close event.
    if (reply.raw.destroyed) leave();
    this.#running.set(request, controller);
    // The request was still being read when the others were ended.
    if (this.#cutOff) controller.abort(endedByShutdown());
    return {
      signal: controller.signal,
      abort: (reason) => controller.abort(reason),
      end: () => {
        timer.cancel();
        reply.raw.off('close', leave);
        this.#running.delete(request);
        this.#settle();
      },
    };
  }

  abort(request: FastifyRequest, reason: Error): boolean {
    const controller = this.#running.get(request);
    controller?.abort(reason);
    return controller !== undefined;
  }

  /**
   * Refuses new requests from now on. Resolves when all have ended; those that still run after the limit are ended. May be
   * called again with a shorter limit. False where some did not end even then.
   */
  async drain(limitMs: number): Promise<boolean> {
    this.#draining = true;
    if (this.#isEmpty) return true;
    const limit = runAfter(limitMs, () => this.#endAll());
    const isEmpty = await new Promise<boolean>((resolve) => {
      const late = runAfter(limitMs + SETTLE_MS, () => resolve(false));
      this.#whenEmpty.push(() => {
        late.cancel();
        resolve(true);
      });
    });
    limit.cancel();
    return isEmpty;
  }

  get #isEmpty(): boolean {
    // Once all requests are ended, a client that does not read the end of its answer is not waited for.
    return this.#running.size === 0 && (this.#cutOff || this.#open.size === 0);
  }

  #endAll(): void {
    this.#cutOff = true;
    for (const controller of this.#running.values()) controller.abort(endedByShutdown());
    this.#settle();
  }

  #settle(): void {
    if (this.#isEmpty) for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }
}

function timeoutOf(request: FastifyRequest, longestMs: number): number {
  const header = request.headers[TIMEOUT_HEADER];
  if (header === undefined) return longestMs;
  const wanted = typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : 0;
  if (wanted < 1) throw badRequest(TIMEOUT_HEADER, 'must be a whole number of milliseconds, 1 or more');
  return Math.min(wanted, longestMs);
}
