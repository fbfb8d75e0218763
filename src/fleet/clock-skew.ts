// How far the clocks of other nodes are from this one's. Nothing is decided by it: ages travel between nodes, never times. It
// is for people, whose logs and days of usage would not fit together.

/** So many statuses count: one that was delayed looks like a clock that is behind, the least delayed does not. */
const RECENT = 8;
const WARN_MS = 5000;

export class ClockSkews {
  readonly #recent = new Map<string, number[]>();
  readonly #warned = new Set<string>();

  /** In milliseconds since 1970. A warning comes once, and again only after the clock was right. */
  handle(node: string, sentMs: number, receivedMs: number): string | undefined {
    const recent = [...(this.#recent.get(node) ?? []), sentMs - receivedMs].slice(-RECENT);
    this.#recent.set(node, recent);
    const skewMs = Math.max(...recent);
    if (recent.length < RECENT) return undefined;
    if (Math.abs(skewMs) < WARN_MS) this.#warned.delete(node);
    else if (!this.#warned.has(node)) {
      this.#warned.add(node);
      const seconds = Math.round(Math.abs(skewMs) / 1000);
      return `the clock of ${node} is ${seconds} s ${skewMs > 0 ? 'ahead of' : 'behind'} this node’s: one of them is wrong`;
    }
    return undefined;
  }

  left(node: string): void {
    this.#recent.delete(node);
    this.#warned.delete(node);
  }

  /** Of all nodes, in either direction. */
  get largestMs(): number {
    return Math.max(0, ...[...this.#recent.values()].map((recent) => Math.abs(Math.max(...recent))));
  }
}
