// The door: for each model, so many requests and so many prompt tokens may wait for their first token. Whoever
// comes beyond that hears at once how long the wait is likely to be, by what was measured lately.

import { ApiError } from './errors.ts';

export interface AdmissionLimits {
  readonly maxQueuedRequests: number;
  readonly maxQueuedTokens: number;
}

export interface QueueTicket {
  /** Says how long the prompts are, once that is known; refuses where they are too much. */
  weigh(tokens: number): void;
  /** The first token is there: no longer waiting. */
  start(): void;
  /** Leaves the queue in any state; more than once does no harm. */
  leave(): void;
}

interface Start {
  readonly atMs: number;
  readonly tokens: number;
}

interface Queue {
  requests: number;
  tokens: number;
  readonly starts: Start[];
}

/** Starts older than this say nothing about the present. */
const WINDOW_MS = 30_000;
const LONGEST_WAIT_SECONDS = 600;

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #nowMs: () => number;
  readonly #queues = new Map<string, Queue>();

  constructor(limits: AdmissionLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  enter(model: string): QueueTicket {
    const queue = this.#queues.get(model) ?? { requests: 0, tokens: 0, starts: [] };
    this.#queues.set(model, queue);
    if (queue.requests >= this.#limits.maxQueuedRequests) {
      throw this.#refusal(queue, 0, `${queue.requests} requests wait already`);
    }
    return this.#ticket(queue);
  }

  /** Seconds until so many more tokens would be served, by the rate of late; undefined where nothing was served. */
  estimateSeconds(model: string, tokens: number): number | undefined {
    const queue = this.#queues.get(model);
    return queue === undefined ? undefined : this.#estimate(queue, tokens);
  }

  #ticket(queue: Queue): QueueTicket {
    let weight = 0;
    let waiting = true;
    queue.requests++;
    const leave = () => {
      if (!waiting) return;
      waiting = false;
      queue.requests--;
      queue.tokens -= weight;
    };
    return {
      weigh: (tokens) => {
        // Alone, even the longest prompt may wait: the context limit is its own judge.
        if (queue.tokens > 0 && queue.tokens + tokens > this.#limits.maxQueuedTokens) {
          leave();
          throw this.#refusal(queue, tokens, `prompts of ${queue.tokens} tokens wait already`);
        }
        weight = tokens;
        queue.tokens += tokens;
      },
      start: () => {
        if (waiting) queue.starts.push({ atMs: this.#nowMs(), tokens: weight });
        leave();
      },
      leave,
    };
  }

  #estimate(queue: Queue, tokens: number): number | undefined {
    const nowMs = this.#nowMs();
    const old = queue.starts.findIndex(({ atMs }) => nowMs - atMs <= WINDOW_MS);
    queue.starts.splice(0, old === -1 ? queue.starts.length : old);
    const [first] = queue.starts;
    if (first === undefined) return undefined;
    const served = queue.starts.reduce((sum, start) => sum + start.tokens, 0);
    const seconds = Math.max(1, (nowMs - first.atMs) / 1000);
    return ((queue.tokens + tokens) * seconds) / Math.max(1, served);
  }

  #refusal(queue: Queue, tokens: number, why: string): ApiError {
    const estimate = this.#estimate(queue, tokens) ?? LONGEST_WAIT_SECONDS / 10;
    const seconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, Math.ceil(estimate)));
    return new ApiError(429, `the queue is full: ${why}; try again in about ${seconds} s`, {
      code: 'queue_full',
      headers: { 'retry-after': String(seconds) },
    });
  }
}
