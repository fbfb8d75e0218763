// What a worker has to tell its gateways: all that a step brings to one gateway goes in one message.

import type { AnswerNews } from '../messages.ts';
import type { Ledger, LedgerEntry } from './ledger.ts';

export class Outbox {
  readonly #ledger: Ledger;
  readonly #send: (gateway: string, news: readonly AnswerNews[]) => void;
  /** Entries with news, and how many of their tokens were sent before. */
  readonly #changed = new Map<LedgerEntry, number>();
  #scheduled = false;

  constructor(ledger: Ledger, send: (gateway: string, news: readonly AnswerNews[]) => void) {
    this.#ledger = ledger;
    this.#send = send;
  }

  /** Its gateway has heard of so many tokens. */
  add(entry: LedgerEntry, heardTokens: number): void {
    const before = this.#changed.get(entry) ?? heardTokens;
    this.#changed.set(entry, Math.min(before, heardTokens));
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Streams of one step are read one after the other: by then all of them have been.
    setImmediate(() => this.flush());
  }

  flush(): void {
    this.#scheduled = false;
    const byGateway = new Map<string, AnswerNews[]>();
    for (const [entry, heardTokens] of this.#changed) {
      const news = byGateway.get(entry.gateway) ?? [];
      byGateway.set(entry.gateway, news);
      news.push(this.#ledger.newsFrom(entry, heardTokens));
    }
    this.#changed.clear();
    for (const [gateway, news] of byGateway) this.#send(gateway, news);
  }
}
