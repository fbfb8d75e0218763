// Which requests are in the house, and how each may be ended from outside: the client leaves, its time is up,
// the server closes.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { runAfter } from '../time/long-timer.ts';
import { badRequest, ClientLeft, deadlineExceeded, shuttingDown } from './errors.ts';

const TIMEOUT_HEADER = 'x-chairlift-timeout-ms';

export interface Lifetime {
  /** Aborts with an ApiError, or with ClientLeft. */
  readonly signal: AbortSignal;
  abort(reason: Error): void;
  end(): void;
}

export class Activity {
  readonly #running = new Set<AbortController>();
  readonly #whenEmpty: (() => void)[] = [];
  #draining = false;

  get draining(): boolean {
    return this.#draining;
  }

  get running(): number {
    return this.#running.size;
  }

  begin(request: FastifyRequest, reply: FastifyReply, longestMs: number): Lifetime {
    const limitMs = timeoutOf(request, longestMs);
    const controller = new AbortController();
    const leave = () => {
      if (!reply.raw.writableEnded) controller.abort(new ClientLeft());
    };
    const timer = runAfter(limitMs, () => controller.abort(deadlineExceeded(limitMs)));
    reply.raw.once('close', leave);
    // Who left while the request was still being read is not told of again.
    if (reply.raw.destroyed) leave();
    this.#running.add(controller);
    return {
      signal: controller.signal,
      abort: (reason) => controller.abort(reason),
      end: () => {
        timer.cancel();
        reply.raw.off('close', leave);
        this.#running.delete(controller);
        if (this.#running.size === 0) for (const resolve of this.#whenEmpty.splice(0)) resolve();
      },
    };
  }

  /** From now on nobody new comes in. Resolves when all have gone; those still there after the limit are ended. */
  async drain(limitMs: number): Promise<void> {
    this.#draining = true;
    if (this.#running.size === 0) return;
    const timer = runAfter(limitMs, () => {
      for (const controller of this.#running) controller.abort(shuttingDown());
    });
    await new Promise<void>((resolve) => this.#whenEmpty.push(resolve));
    timer.cancel();
  }
}

function timeoutOf(request: FastifyRequest, longestMs: number): number {
  const header = request.headers[TIMEOUT_HEADER];
  if (header === undefined) return longestMs;
  const wanted = typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : 0;
  if (wanted < 1) throw badRequest(TIMEOUT_HEADER, 'must be a whole number of milliseconds, 1 or more');
  return Math.min(wanted, longestMs);
}
