// Masks that many grammars share: rules that call no other are the same in all of them, such as the text of a string.

import type { StateMask } from './masks.ts';

export class SharedMasks {
  readonly #maxEntries: number;
  /** Least recently used first. */
  readonly #entries = new Map<string, StateMask>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string, make: () => StateMask): StateMask {
    const entry = this.#entries.get(key) ?? make();
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#maxEntries && oldest !== undefined) this.#entries.delete(oldest);
    return entry;
  }
}
