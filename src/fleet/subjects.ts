// Where what is said in a fleet. Several fleets share a message system by different names.

export class Subjects {
  readonly #root: string;

  /** Letters, digits, `-` and `_`. */
  constructor(fleet: string) {
    this.#root = `chairlift.${fleet}`;
  }

  /** How each node stands, said twice a second. */
  status(node: string): string {
    return `${this.#root}.status.${node}`;
  }

  get everyStatus(): string {
    return this.status('*');
  }

  /** What a gateway wants of a worker. */
  work(worker: string): string {
    return `${this.#root}.work.${worker}`;
  }

  /** What workers tell a gateway. */
  news(gateway: string): string {
    return `${this.#root}.news.${gateway}`;
  }

  /** Questions to a node, each with one answer. */
  ask(node: string): string {
    return `${this.#root}.ask.${node}`;
  }

  /** Prefixes that enter and leave a worker's caches. */
  prefixes(worker: string): string {
    return `${this.#root}.prefixes.${worker}`;
  }

  get everyPrefixes(): string {
    return this.prefixes('*');
  }
}
