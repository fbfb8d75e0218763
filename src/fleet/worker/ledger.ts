// What a worker has been given and has answered: for each request its newest attempt, with all tokens so far. Answers stay for
// a while after their end, for gateways that have missed something or whose client has gone to another one. Pure.

import type { FinishEvent, Logprobs } from '../../engine/request.ts';
import type { Priority } from '../../engine/scheduler/sequence.ts';
import type { AnswerNews, AnswerStanding, Attempt, Returned } from '../messages.ts';

/** An answer that has ended is kept so long. */
const KEEP_MS = 300_000;
/** And so many tokens of them together. */
const KEEP_TOKENS = 4_000_000;
/** Before any was seen. */
const USUAL_ANSWER = 200;
const ANSWER_LEARNING = 0.05;

export interface LedgerEntry extends Attempt {
  readonly gateway: string;
  readonly model: string;
  readonly promptTokens: number;
  /** Of them and of those that it came with, probably. */
  readonly cachedTokens: number;
  readonly priority: Priority;
  /** Milliseconds since 1970. */
  readonly enqueuedMs: number;
  /** Of the answer: those that it came with, too. */
  readonly tokens: number[];
  /** How many it came with. */
  readonly given: number;
  readonly logprobs: Logprobs[];
  finish: FinishEvent | undefined;
  returned: Returned | undefined;
  /** Its gateway has all of it. */
  settled: boolean;
  endedMs: number | undefined;
}

type NewEntry = Pick<
  LedgerEntry,
  'id' | 'attempt' | 'gateway' | 'model' | 'promptTokens' | 'cachedTokens' | 'priority' | 'enqueuedMs'
> & {
  readonly answer: readonly number[];
};

export class Ledger {
  /** Those that ended first are first among those that have ended. */
  readonly #entries = new Map<string, LedgerEntry>();
  #keptTokens = 0;
  #answerTokens = USUAL_ANSWER;

  /** Of an answer, a mean over the last ones. */
  get answerTokens(): number {
    return this.#answerTokens;
  }

  /** Undefined where this attempt, or a later one, is known already. */
  open({ answer, ...known }: NewEntry): LedgerEntry | undefined {
    const before = this.#entries.get(known.id);
    if (before !== undefined && before.attempt >= known.attempt) return undefined;
    if (before !== undefined) this.#remove(before);
    const entry: LedgerEntry = {
      ...known,
      tokens: [...answer],
      given: answer.length,
      logprobs: [],
      finish: undefined,
      returned: undefined,
      settled: false,
      endedMs: undefined,
    };
    this.#entries.set(entry.id, entry);
    return entry;
  }

  get(id: string): LedgerEntry | undefined {
    return this.#entries.get(id);
  }

  /** The entry, where this is the attempt it knows. */
  find({ id, attempt }: Attempt): LedgerEntry | undefined {
    const entry = this.#entries.get(id);
    return entry?.attempt === attempt ? entry : undefined;
  }

  /** Those that are still computed. */
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
    // Behind all that ended before.
    this.#entries.delete(entry.id);
    this.#entries.set(entry.id, entry);
    this.#forget(nowMs);
  }

  settle(attempt: Attempt): void {
    const entry = this.find(attempt);
    if (entry === undefined) return;
    entry.settled = true;
    // A gateway that knows the end needs none of this; a client may still ask for the tokens.
    entry.logprobs.length = 0;
  }

  /** How far the requests of a gateway are. */
  standing(gateway: string): AnswerStanding[] {
    return [...this.#entries.values()]
      .filter((entry) => entry.gateway === gateway && !entry.settled)
      .map(({ id, attempt, tokens, endedMs }) => ({
        id,
        attempt,
        count: tokens.length,
        ended: endedMs !== undefined,
      }));
  }

  /** Gateways with something that they do not have yet. */
  gateways(): Set<string> {
    return new Set(
      [...this.#entries.values()].filter(({ settled }) => !settled).map(({ gateway }) => gateway),
    );
  }

  /** What is behind the first `count` tokens. */
  newsFrom(entry: LedgerEntry, count: number): AnswerNews {
    const { id, attempt, tokens, given, logprobs, finish, returned } = entry;
    // Of those that it came with nothing else is known.
    const from = Math.max(count, given);
    return {
      id,
      attempt,
      from,
      tokens: tokens.slice(from),
      logprobs: logprobs.length === 0 ? undefined : logprobs.slice(from - given),
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
