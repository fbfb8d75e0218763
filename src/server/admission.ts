// The door: for each model, so many requests and so many prompt tokens may wait for their first token. Whoever
// comes beyond that hears at once how long the wait is likely to be, by what was measured lately. A queue that others
// have filled is still open to an account up to its share, so that a flood shuts nobody out; never more than twice
// the limit waits.

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

interface Waiting {
  requests: number;
  tokens: number;
}

interface Queue extends Waiting {
  /** Those with something waiting. */
  readonly accounts: Map<string, Waiting>;
  readonly starts: Start[];
}

/** Starts older than this say nothing about the present. */
const WINDOW_MS = 30_000;
const LONGEST_WAIT_SECONDS = 600;

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #nowMs: () => number;
  readonly #queues = new Map<string, Queue>();
  #background = 0;

  constructor(limits: AdmissionLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** Requests that have no token yet, of all models. */
  get waiting(): number {
    let waiting = 0;
    for (const { requests } of this.#queues.values()) waiting += requests;
    return waiting;
  }

  /** Those of them for which somebody waits. */
  get awaited(): number {
    return this.waiting - this.#background;
  }

  /** `background`: nobody waits for the answer. */
  enter(model: string, account = '', background = false): QueueTicket {
    const queue = this.#queues.get(model) ?? { requests: 0, tokens: 0, accounts: new Map(), starts: [] };
    this.#queues.set(model, queue);
    const { maxQueuedRequests } = this.#limits;
    const own = queue.accounts.get(account)?.requests ?? 0;
    if (queue.requests >= maxQueuedRequests && own >= share(maxQueuedRequests, queue, account)) {
      throw this.#refusal(queue, 0, `${queue.requests} requests wait already`);
    }
    return this.#ticket(queue, account, background);
  }

  #ticket(queue: Queue, account: string, background: boolean): QueueTicket {
    const own = queue.accounts.get(account) ?? { requests: 0, tokens: 0 };
    queue.accounts.set(account, own);
    let weight = 0;
    let waiting = true;
    const count = (requests: number, tokens: number) => {
      for (const waits of [queue, own]) {
        waits.requests += requests;
        waits.tokens += tokens;
      }
      if (background) this.#background += requests;
      if (own.requests === 0) queue.accounts.delete(account);
    };
    count(1, 0);
    const leave = () => {
      if (!waiting) return;
      waiting = false;
      count(-1, -weight);
    };
    return {
      weigh: (tokens) => {
        // Alone, even the longest prompt may wait: the context limit is its own judge.
        const { maxQueuedTokens } = this.#limits;
        const full = queue.tokens > 0 && queue.tokens + tokens > maxQueuedTokens;
        if (full && own.tokens + tokens > share(maxQueuedTokens, queue, account)) {
          leave();
          throw this.#refusal(queue, tokens, `prompts of ${queue.tokens} tokens wait already`);
        }
        weight = tokens;
        count(0, tokens);
      },
      start: () => {
        if (waiting) this.#remember(queue, weight);
        leave();
      },
      leave,
    };
  }

  #remember(queue: Queue, tokens: number): void {
    queue.starts.push({ atMs: this.#nowMs(), tokens });
    this.#forgetOld(queue);
  }

  #forgetOld({ starts }: Queue): void {
    const nowMs = this.#nowMs();
    const kept = starts.findIndex(({ atMs }) => nowMs - atMs <= WINDOW_MS);
    starts.splice(0, kept === -1 ? starts.length : kept);
  }

  /** Seconds until so many more tokens would be served, by the rate of late; undefined where nothing was served. */
  #estimate(queue: Queue, tokens: number): number | undefined {
    const nowMs = this.#nowMs();
    this.#forgetOld(queue);
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

/** What an account may have of a limit: an equal part among those that wait, itself included. */
function share(limit: number, { accounts }: Queue, account: string): number {
  return limit / (accounts.size + (accounts.has(account) ? 0 : 1));
}
