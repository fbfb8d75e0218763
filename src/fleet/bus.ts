// The message system as a fleet sees it: publish a message to every subscriber, and request an answer from one. Messages may be
// lost, never changed, and arrive in order from one sender; everything above can bear that.

export type BusListener = (message: unknown, reply: ((answer: unknown) => void) | undefined) => void;

export type BusState = 'connected' | 'cut-off' | 'closed';

export interface Bus {
  readonly state: BusState;
  publish(subject: string, message: unknown): void;
  request(subject: string, message: unknown, timeoutMs: number): Promise<unknown>;
  /** `onRefused`: called where this node may not listen there; it is tried again with the next connection. */
  subscribe(subject: string, listener: BusListener, onRefused?: () => void): () => void;
  onState(listener: (state: BusState) => void): () => void;
  close(): Promise<void>;
}

export class Subjects {
  readonly #root: string;

  /** Letters, digits, `-` and `_`. */
  constructor(fleet: string) {
    this.#root = `chairlift.${fleet}`;
  }

  /** Of workers, for gateways. */
  status(node: string): string {
    return `${this.#root}.status.${node}`;
  }

  /** Of gateways, for all nodes. */
  summary(gateway: string): string {
    return `${this.#root}.summary.${gateway}`;
  }

  get everySummary(): string {
    return this.summary('*');
  }

  get everyStatus(): string {
    return this.status('*');
  }

  work(worker: string): string {
    return `${this.#root}.work.${worker}`;
  }

  news(gateway: string): string {
    return `${this.#root}.news.${gateway}`;
  }

  ask(node: string): string {
    return `${this.#root}.ask.${node}`;
  }

  name(node: string): string {
    return `${this.#root}.name.${node}`;
  }

  /** Answers to what this node asks come below it: no other node needs to read them. */
  inbox(node: string): string {
    return `${this.#root}.inbox.${node}`;
  }

  prefixes(worker: string): string {
    return `${this.#root}.prefixes.${worker}`;
  }

  get everyPrefixes(): string {
    return this.prefixes('*');
  }
}
