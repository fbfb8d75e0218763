// Changes of the database, one after the other, each in a transaction that has the file to itself.
//
// The lock is taken by a statement of its own: one that fails for want of it stays open until it is collected as
// garbage, and keeps its connection at what it read back then.

import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from './store-error.ts';

const RETRY_MS = 25;

export class Changes {
  readonly #execute: (text: string) => void;
  #last: Promise<unknown> = Promise.resolve();

  constructor(execute: (text: string) => void) {
    this.#execute = execute;
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
    this.#execute('begin immediate');
    try {
      const result = await action();
      this.#execute('commit');
      return result;
    } catch (error) {
      this.#execute('rollback');
      throw error;
    }
  }
}
