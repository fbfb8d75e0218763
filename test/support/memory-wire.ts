// A message system in memory that loses messages, and nodes that can be cut off from it.

import type { Bus, BusListener, BusState } from '../../src/fleet/bus.ts';
import { fromWire, toWire } from '../../src/fleet/wire.ts';

interface Listening {
  readonly node: string;
  readonly subject: string;
  readonly listener: BusListener;
}

export class MemoryWire {
  readonly #listening = new Set<Listening>();
  readonly #cut = new Set<string>();
  readonly #isLost: () => boolean;

  /** `isLost`: asked for each message. */
  constructor(isLost: () => boolean = () => false) {
    this.#isLost = isLost;
  }

  cut(node: string): void {
    this.#cut.add(node);
  }

  mend(node: string): void {
    this.#cut.delete(node);
  }

  bus(node: string): Bus {
    const state: BusState = 'connected';
    return {
      state,
      publish: (subject, message) => this.#carry(node, subject, message, undefined),
      request: (subject, message, timeoutMs) =>
        new Promise((resolve, reject) => {
          const timer = setTimeout(() => reject(new Error('no answer')), timeoutMs);
          this.#carry(node, subject, message, (answer) => {
            clearTimeout(timer);
            resolve(answer);
          });
        }),
      subscribe: (subject, listener) => {
        const listening = { node, subject, listener };
        this.#listening.add(listening);
        return () => this.#listening.delete(listening);
      },
      onState: () => () => {},
      close: async () => {},
    };
  }

  #carry(
    from: string,
    subject: string,
    message: unknown,
    reply: ((answer: unknown) => void) | undefined,
  ): void {
    if (this.#cut.has(from)) return;
    const bytes = toWire(message);
    for (const { node, subject: wanted, listener } of this.#listening) {
      if (!matches(wanted, subject) || this.#cut.has(node) || this.#isLost()) continue;
      setImmediate(() => {
        const answer = reply && ((given: unknown) => reply(fromWire(toWire(given))));
        if (!this.#cut.has(node)) listener(fromWire(bytes), answer);
      });
    }
  }
}

function matches(wanted: string, subject: string): boolean {
  return wanted === subject || (wanted.endsWith('.*') && subject.startsWith(wanted.slice(0, -1)));
}
