// The requests a worker was given, each with its newest attempt and all tokens so far. Answers stay for a while after their
// end, for gateways that have missed something or whose client has moved. The outbox sends what is new.

import type { FinishEvent, Logprobs } from '../../engine/request.ts';
import type { Priority } from '../../engine/scheduler/sequence.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { StopToken } from '../../sampling/stop-condition.ts';
import type { AnswerProgress, AnswerUpdate, Attempt, Returned } from '../messages.ts';
import type { TokensByTier } from '../routing/expected-prefix.ts';

/** How long an answer is kept after its end. */
const KEEP_MS = 300_000;
/** And at most this many tokens of them together. */
const KEEP_TOKENS = 4_000_000;
/** Before the first answer. */
const USUAL_ANSWER = 200;
const ANSWER_LEARNING = 0.05;

export interface LedgerEntry extends Attempt {
  readonly gateway: string;
  readonly model: string;
  readonly promptTokens: number;
  /** Of the prompt and the given tokens, probably. */
  readonly cachedTokens: number;
  /** Of them, where its gateway expected them to be. */
  readonly expected?: TokensByTier | undefined;
  readonly priority: Priority;
  /** By the clock of this machine, in milliseconds since 1970. */
  readonly enqueuedMs: number;
  /** Those it came with included. */
  readonly tokens: number[];
  readonly given: number;
  readonly logprobs: Logprobs[];
  /** Of its last token, where that ends the answer. */
  stop: StopToken | undefined;
  finish: FinishEvent | undefined;
  returned: Returned | undefined;
  /** It waits for its pictures: the engine does not have it yet. */
  preparing: boolean;
  /** Its gateway has all of it. */
  settled: boolean;
  endedMs: number | undefined;
}

type NewEntry = Pick<
  LedgerEntry,
  | 'id'
  | 'attempt'
  | 'gateway'
  | 'model'
  | 'promptTokens'
  | 'cachedTokens'
  | 'expected'
  | 'priority'
  | 'enqueuedMs'
> & {
  readonly answer: readonly number[];
};

export class Ledger {
  /** Ended entries are in the order of their ends. */
  readonly #entries = new Map<string, LedgerEntry>();
  #keptTokens = 0;
  #answerTokens = USUAL_ANSWER;

  get answerTokens(): number {
    return this.#answerTokens;
  }

  /** Undefined for an attempt that is not newer than the known one. */
  open({ answer, ...known }: NewEntry): LedgerEntry | undefined {
    const before = this.#entries.get(known.id);
    if (before !== undefined && before.attempt >= known.attempt) return undefined;
    if (before !== undefined) this.#remove(before);
    const entry: LedgerEntry = {
      ...known,
      tokens: [...answer],
      given: answer.length,
      logprobs: [],
      stop: undefined,
      finish: undefined,
      returned: undefined,
      preparing: false,
      settled: false,
      endedMs: undefined,
    };
    this.#entries.set(entry.id, entry);
    return entry;
  }

  get(id: string): LedgerEntry | undefined {
    return this.#entries.get(id);
  }

  find({ id, attempt }: Attempt): LedgerEntry | undefined {
    const entry = this.#entries.get(id);
    return entry?.attempt === attempt ? entry : undefined;
  }

  running(): LedgerEntry[] {
    return [...this.#entries.values()].filter(({ endedMs }) => endedMs === undefined);
  }

  end(entry: LedgerEntry, end: Pick<LedgerEntry, 'finish' | 'returned'>, nowMs: number): void {
    if (entry.endedMs !== undefined || this.#entries.get(entry.id) !== entry) return;
    entry.finish = end.finish;
    entry.returned = end.returned;
    entry.endedMs = nowMs;
    if (end.finish?.reason === 'stop' || end.finish?.reason === 'length') {
      this.#answerTokens += ANSWER_LEARNING * (entry.tokens.length - this.#answerTokens);
    }
    this.#keptTokens += entry.tokens.length;
    // Moves it after all that ended before.
    this.#entries.delete(entry.id);
    this.#entries.set(entry.id, entry);
    this.#forget(nowMs);
  }

  settle(attempt: Attempt): void {
    const entry = this.find(attempt);
    if (entry === undefined) return;
    entry.settled = true;
    // A gateway that has the end needs no log-probabilities; a client may still ask for the tokens.
    entry.logprobs.length = 0;
  }

  progress(gateway: string): AnswerProgress[] {
    return [...this.#entries.values()]
      .filter((entry) => entry.gateway === gateway && !entry.settled)
      .map(({ id, attempt, tokens, endedMs, preparing }) => ({
        id,
        attempt,
        count: tokens.length,
        ended: endedMs !== undefined,
        ...(preparing ? { preparing } : {}),
      }));
  }

  gateways(): Set<string> {
    return new Set(
      [...this.#entries.values()].filter(({ settled }) => !settled).map(({ gateway }) => gateway),
    );
  }

  updateFrom(entry: LedgerEntry, count: number): AnswerUpdate {
    const { id, attempt, tokens, given, logprobs, stop, finish, returned } = entry;
    // For tokens it came with there is nothing else to send.
    const from = Math.max(count, given);
    return {
      id,
      attempt,
      from,
      tokens: tokens.slice(from),
      logprobs: logprobs.length === 0 ? undefined : logprobs.slice(from - given),
      stop,
      finish,
      returned,
    };
  }

  #forget(nowMs: number): void {
    for (const entry of this.#entries.values()) {
      if (entry.endedMs === undefined) continue;
      if (nowMs - entry.endedMs <= KEEP_MS && this.#keptTokens <= KEEP_TOKENS) return;
      this.#remove(entry);
    }
  }

  #remove(entry: LedgerEntry): void {
    this.#entries.delete(entry.id);
    if (entry.endedMs !== undefined) this.#keptTokens -= entry.tokens.length;
  }
}

export class Outbox {
  readonly #ledger: Ledger;
  readonly #clock: Pick<Clock, 'soon'>;
  readonly #send: (gateway: string, news: readonly AnswerUpdate[]) => void;
  /** Changed entries, and how many of their tokens were sent before. */
  readonly #changed = new Map<LedgerEntry, number>();
  #scheduled = false;

  constructor(
    ledger: Ledger,
    clock: Pick<Clock, 'soon'>,
    send: (gateway: string, news: readonly AnswerUpdate[]) => void,
  ) {
    this.#ledger = ledger;
    this.#clock = clock;
    this.#send = send;
  }

  /** `heardTokens`: how many tokens the gateway has. */
  add(entry: LedgerEntry, heardTokens: number): void {
    const before = this.#changed.get(entry) ?? heardTokens;
    this.#changed.set(entry, Math.min(before, heardTokens));
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Streams of one step are read one after the other: by then all are. One message for each gateway.
    this.#clock.soon(() => this.flush());
  }

  flush(): void {
    this.#scheduled = false;
    const byGateway = new Map<string, AnswerUpdate[]>();
    for (const [entry, heardTokens] of this.#changed) {
      const news = byGateway.get(entry.gateway) ?? [];
      byGateway.set(entry.gateway, news);
      news.push(this.#ledger.updateFrom(entry, heardTokens));
    }
    this.#changed.clear();
    for (const [gateway, news] of byGateway) this.#send(gateway, news);
  }
}
