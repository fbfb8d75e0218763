// The books: what each key must be found to have used, in bounds. They are exact where a client received the end of an answer;
// for clients that left or were cut off they lie between what was sent and what the whole answer takes.

import Libsql from 'libsql';
import type { Account } from './accounts.ts';
import type { TokenUsage } from './answer.ts';

export interface Entry {
  readonly accountId: string;
  readonly what: string;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly least: TokenUsage;
  readonly most: TokenUsage;
}

/** One row of the server's. */
export interface Charged {
  readonly requests: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export const noTokens: TokenUsage = { promptTokens: 0, completionTokens: 0 };

/** A server that is killed loses what it had not written: that of a second, and of as long as somebody held the database. */
const UNWRITTEN_MS = 10_000;

export type HeldUp = (fromMs: number, toMs: number) => number;

export class Books {
  #entries: Entry[] = [];
  readonly #livesMs: number[] = [];
  readonly #heldUp: HeldUp;

  /** `heldUp` says for how long other programs kept the server from computing within a time. */
  constructor(heldUp: HeldUp = () => 0) {
    this.#heldUp = heldUp;
  }

  enter(entry: Entry): void {
    this.#entries.push(entry);
  }

  /** Heard to its end. */
  exact(accountId: string, what: string, usage: TokenUsage, startedMs: number, endedMs: number): void {
    this.enter({ accountId, what, startedMs, endedMs, least: usage, most: usage });
  }

  /** The server was ended by force at that time. */
  lost(atMs: number): void {
    const isAtRisk = ({ endedMs }: Entry) => endedMs > atMs - UNWRITTEN_MS;
    this.#entries = this.#entries.map((entry) => (isAtRisk(entry) ? { ...entry, least: noTokens } : entry));
  }

  /** A server began: limits by the minute start afresh with it. */
  lifeBegan(atMs: number): void {
    this.#livesMs.push(atMs);
  }

  of(accountId: string): readonly Entry[] {
    return this.#entries.filter((entry) => entry.accountId === accountId);
  }

  /** What does not agree, in words. */
  problems(account: Account, charged: Charged): string[] {
    const entries = this.of(account.id);
    const bounds = {
      least: sum(entries.map(({ least }) => least)),
      most: sum(entries.map(({ most }) => most)),
    };
    const problems: string[] = [];
    for (const kind of ['promptTokens', 'completionTokens'] as const) {
      const least = bounds.least[kind];
      const most = bounds.most[kind];
      if (charged[kind] >= least && charged[kind] <= most) continue;
      const heard = least === most ? String(least) : `${least} to ${most}`;
      problems.push(
        `${account.name}: ${charged[kind]} ${kind} are charged, its clients account for ${heard}`,
      );
    }
    const { dailyTokens } = account;
    const total = charged.promptTokens + charged.completionTokens;
    if (dailyTokens !== undefined && total > dailyTokens) {
      problems.push(`${account.name}: ${total} tokens were used of ${dailyTokens} a day`);
    }
    return [...problems, ...this.#minuteProblems(account, entries)];
  }

  /** Whatever window one looks at: no more than a burst, and what has come since. */
  #minuteProblems(account: Account, entries: readonly Entry[]): string[] {
    const { tokensPerMinute, requestsPerMinute, name } = account;
    const lives = [...this.#livesMs, Number.POSITIVE_INFINITY];
    return lives.slice(0, -1).flatMap((fromMs, at) => {
      const own = entries
        .filter(({ startedMs }) => startedMs >= fromMs && startedMs < (lives[at + 1] as number))
        .map(({ startedMs, endedMs, least }) => ({
          startedMs,
          // The limits may have seen it so much later.
          lateMs: CLOCK_MS + this.#heldUp(startedMs, endedMs),
          tokens: least.promptTokens + least.completionTokens,
        }));
      return [
        overBurst(own, tokensPerMinute, `${name}: tokens`),
        overBurst(own.filter(({ tokens }) => tokens > 0).map(single), requestsPerMinute, `${name}: requests`),
      ].flatMap((problem) => (problem === undefined ? [] : [problem]));
    });
  }
}

interface Spending {
  readonly startedMs: number;
  /** How much later the server's clock may have started. */
  readonly lateMs?: number;
  readonly tokens: number;
}

const single = (spending: Spending): Spending => ({ ...spending, tokens: 1 });

/** Clients' clocks start a little before the server's. */
const CLOCK_MS = 1000;

/** The worst window in which more was spent than the limit allows. A single one above the whole limit may be served. */
export function overBurst(
  spendings: readonly Spending[],
  limit: number | undefined,
  what: string,
): string | undefined {
  if (limit === undefined) return undefined;
  const ordered = spendings.toSorted((a, b) => a.startedMs - b.startedMs);
  let worst: { over: number; said: string } | undefined;
  for (const [at, first] of ordered.entries()) {
    let spent = 0;
    let largest = limit;
    let lateMs = 0;
    for (const { startedMs, tokens, ...spending } of ordered.slice(at)) {
      lateMs = Math.max(lateMs, spending.lateMs ?? CLOCK_MS);
      spent += tokens;
      largest = Math.max(largest, tokens);
      const windowMs = startedMs - first.startedMs + lateMs;
      const over = spent - largest - (limit * windowMs) / 60_000;
      if (over <= 0 || over <= (worst?.over ?? 0)) continue;
      worst = {
        over,
        said: `${what}: ${spent} within ${(windowMs / 1000).toFixed(1)} s at a limit of ${limit} a minute`,
      };
    }
  }
  return worst?.said;
}

/** What the server wrote, by key; read when it is not running. */
export function chargedIn(database: string): Map<string, Charged> {
  const handle = new Libsql(database);
  try {
    const rows = handle
      .prepare(
        'select key_id as id, sum(requests) as requests, sum(prompt_tokens) as prompt, sum(completion_tokens) as completion from key_usage group by key_id',
      )
      .all() as { id: string; requests: number; prompt: number; completion: number }[];
    return new Map(
      rows.map(({ id, requests, prompt, completion }) => [
        id,
        { requests, promptTokens: prompt, completionTokens: completion },
      ]),
    );
  } finally {
    handle.close();
  }
}

export function sum(usages: readonly TokenUsage[]): TokenUsage {
  return usages.reduce(
    (total, { promptTokens, completionTokens }) => ({
      promptTokens: total.promptTokens + promptTokens,
      completionTokens: total.completionTokens + completionTokens,
    }),
    noTokens,
  );
}
