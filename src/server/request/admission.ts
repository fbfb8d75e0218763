// Admission to the queue: for each model, a limited number of requests, sequences and prompt tokens may wait for their first
// token. A request has a sequence for each answer to each of its prompts, or for each text to embed. A request beyond the
// limits is refused at once, with how long the wait is likely to be. A queue that others have filled still admits an account
// up to its share, so that a flood locks no account out; never more than twice the limit waits.

import { ApiError } from '../http/errors.ts';

export interface AdmissionLimits {
  readonly maxQueuedRequests: number;
  readonly maxQueuedSequences: number;
  readonly maxQueuedTokens: number;
}

export interface QueueEntry {
  /** Counts the tokens of the prompts once they are known; throws where they are too many. */
  weigh(tokens: number): void;
  /** Called at the first token: the request waits no longer, though some of its sequences may. */
  start(): void;
  begin(): void;
  /** Leaves the queue in any state; later calls do nothing. */
  leave(): void;
}

export const notQueued: QueueEntry = {
  weigh: () => {},
  start: () => {},
  begin: () => {},
  leave: () => {},
};

interface NewQueueEntry {
  readonly account?: string;
  readonly background?: boolean | undefined;
  readonly sequences?: number;
}

interface Start {
  readonly atMs: number;
  readonly tokens: number;
}

interface Waiting {
  requests: number;
  sequences: number;
  tokens: number;
}

interface Queue extends Waiting {
  readonly accounts: Map<string, Waiting>;
  readonly starts: Start[];
}

const nothing: Readonly<Waiting> = { requests: 0, sequences: 0, tokens: 0 };

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

  get waiting(): number {
    let waiting = 0;
    for (const { requests } of this.#queues.values()) waiting += requests;
    return waiting;
  }

  get awaited(): number {
    return this.waiting - this.#background;
  }

  enter(model: string, { account = '', background = false, sequences = 1 }: NewQueueEntry = {}): QueueEntry {
    const queue = this.#queues.get(model) ?? { ...nothing, accounts: new Map(), starts: [] };
    this.#queues.set(model, queue);
    const { maxQueuedRequests, maxQueuedSequences } = this.#limits;
    const own = queue.accounts.get(account) ?? nothing;
    if (queue.requests >= maxQueuedRequests && own.requests >= share(maxQueuedRequests, queue, account)) {
      throw this.#refusal(queue, 0, `${queue.requests} requests wait already`);
    }
    // Alone, even the largest request may wait: other limits bound what one request may ask for.
    const full = queue.sequences > 0 && queue.sequences + sequences > maxQueuedSequences;
    if (full && own.sequences + sequences > share(maxQueuedSequences, queue, account)) {
      const why = `${queue.sequences} sequences wait already, and this request has ${sequences}`;
      throw this.#refusal(queue, 0, why);
    }
    return this.#addEntry(queue, account, background, sequences);
  }

  #addEntry(queue: Queue, account: string, background: boolean, sequences: number): QueueEntry {
    const own = queue.accounts.get(account) ?? { ...nothing };
    let weight = 0;
    let waiting = true;
    let sequencesLeft = sequences;
    const count = (change: Waiting) => {
      for (const waits of [queue, own]) {
        waits.requests += change.requests;
        waits.sequences += change.sequences;
        waits.tokens += change.tokens;
      }
      if (background) this.#background += change.requests;
      if (own.requests === 0 && own.sequences === 0) queue.accounts.delete(account);
      else queue.accounts.set(account, own);
    };
    count({ requests: 1, sequences, tokens: 0 });
    const begin = (begun: number) => {
      count({ requests: 0, sequences: -begun, tokens: 0 });
      sequencesLeft -= begun;
    };
    const end = () => {
      if (!waiting) return;
      waiting = false;
      count({ requests: -1, sequences: 0, tokens: -weight });
    };
    const leave = () => {
      end();
      if (sequencesLeft > 0) begin(sequencesLeft);
    };
    return {
      weigh: (tokens) => {
        // Alone, even the longest prompt may wait: the context length bounds it.
        const { maxQueuedTokens } = this.#limits;
        const full = queue.tokens > 0 && queue.tokens + tokens > maxQueuedTokens;
        if (full && own.tokens + tokens > share(maxQueuedTokens, queue, account)) {
          leave();
          throw this.#refusal(queue, tokens, `prompts of ${queue.tokens} tokens wait already`);
        }
        weight = tokens;
        count({ requests: 0, sequences: 0, tokens });
      },
      start: () => {
        if (waiting) this.#remember(queue, weight);
        end();
      },
      begin: () => {
        if (sequencesLeft > 0) begin(1);
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

  /** Seconds until this many more tokens would be served, at the recent rate; undefined where nothing was served. */
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

/** An account's share of a limit: an equal part among the accounts that wait, itself included. */
function share(limit: number, { accounts }: Queue, account: string): number {
  return limit / (accounts.size + (accounts.has(account) ? 0 : 1));
}
