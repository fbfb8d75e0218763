// How many requests ended how, and what each account must be found to have used.

import type { CompletionAnswer } from './answer.ts';
import type { Outcome } from './outcome.ts';

export interface AccountTally {
  requests: number;
  completionTokens: number;
}

export class Tally {
  readonly outcomes: Record<string, number> = {};
  /** The most that were seen: how hard requests had to press each other for blocks. */
  preemptions = 0;
  readonly #accounts = new Map<string, AccountTally>();

  count(name: string): void {
    this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
  }

  /** Of a completion; `accountId` pays for what was answered. */
  completion(outcome: Outcome, accountId: string): void {
    this.count(nameOf(outcome));
    if (outcome.kind !== 'answer') return;
    const account = this.account(accountId);
    account.requests++;
    account.completionTokens += (outcome.answer as CompletionAnswer).usage?.completionTokens ?? 0;
  }

  account(id: string): AccountTally {
    const known = this.#accounts.get(id) ?? { requests: 0, completionTokens: 0 };
    this.#accounts.set(id, known);
    return known;
  }

  get total(): number {
    return Object.values(this.outcomes).reduce((sum, count) => sum + count, 0);
  }
}

export function nameOf(outcome: Outcome): string {
  if (outcome.kind !== 'error') return outcome.kind;
  return `${outcome.status} ${outcome.code}${outcome.inStream ? ' in the stream' : ''}`;
}
