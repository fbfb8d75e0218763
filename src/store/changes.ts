// Changes of the database, one after the other, each in a transaction that has the file to itself.
//
// The lock is taken by a statement of its own. The library never resets a statement that found the database locked:
// until it is collected as garbage SQLite takes it for one still under way, commits nothing that comes after it, and
// keeps the connection at what it read back then.

import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from './store-error.ts';

const RETRY_MS = 25;

interface Transactions {
  execute(text: string): void;
  /** Whether one is under way: some failures end it by themselves. */
  isOpen(): boolean;
}

export class Changes {
  readonly #transactions: Transactions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  async make<Result>(action: () => Promise<Result>, patienceMs: number): Promise<Result> {
    const endMs = performance.now() + patienceMs;
    for (;;) {
      try {
        return await this.inTurn(() => this.#attempt(action));
      } catch (error) {
        const busy = error instanceof StoreError && error.fault === 'busy';
        if (!busy || performance.now() >= endMs) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  /** Does something that no transaction may be under way for. */
  inTurn<Result>(action: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(action);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #attempt<Result>(action: () => Promise<Result>): Promise<Result> {
    this.#transactions.execute('begin immediate');
    try {
      const result = await action();
      this.#transactions.execute('commit');
      return result;
    } catch (error) {
      if (this.#transactions.isOpen()) this.#transactions.execute('rollback');
      throw error;
    }
  }
}
