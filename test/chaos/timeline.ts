// What was done to the server and when: for the counts of the report, for what led to a violation, and to know which
// requests lived through the end of an engine.

export class Timeline {
  readonly #startedMs = performance.now();
  readonly #recent: string[] = [];
  readonly #deathsMs: number[] = [];
  readonly counts: Record<string, number> = {};

  /** `told`: with what distinguishes it from others of its kind. */
  note(kind: string, told = ''): void {
    this.count(kind);
    this.#recent.push(`${this.clock()} ${kind} ${told}`.trim());
    if (this.#recent.length > 12) this.#recent.shift();
  }

  /** Too common to tell of. */
  count(kind: string): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
  }

  /** An engine process ends now. */
  death(): void {
    this.#deathsMs.push(performance.now());
  }

  deathsBetween(startMs: number, endMs: number): number {
    return this.#deathsMs.filter((atMs) => atMs >= startMs && atMs <= endMs).length;
  }

  recent(): readonly string[] {
    return [...this.#recent];
  }

  /** Seconds since the start. */
  clock(): string {
    return `${((performance.now() - this.#startedMs) / 1000).toFixed(1)} s`;
  }
}
