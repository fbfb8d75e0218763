// How far a stream has come, as the id of its last event: the events of each choice, and those of no choice behind them. What
// choices say mixes by chance, so that one number would not do.

const MOST_CHOICES = 4096;

export class StreamPosition {
  readonly #counts: number[];
  #closing: number;

  constructor(counts: readonly number[] = [], closing = 0) {
    this.#counts = [...counts];
    this.#closing = closing;
  }

  /** As it was written: `12`, `12.9.11`, `12.9.11-1`, or `0` for the beginning. */
  static parse(text: string): StreamPosition | undefined {
    const match = /^(\d{1,9}(?:\.\d{1,9})*)(?:-(\d{1,9}))?$/.exec(text.trim());
    const counts = match?.[1]?.split('.').map(Number) ?? [];
    if (match === null || counts.length > MOST_CHOICES) return undefined;
    return new StreamPosition(counts, Number(match[2] ?? 0));
  }

  /** One event more of a choice, or of none. */
  advance(index: number | undefined): void {
    if (index === undefined) this.#closing += 1;
    else this.#counts[index] = this.#countOf(index) + 1;
  }

  /** Whether it has at least as many of them as the other. */
  covers(other: StreamPosition, index: number | undefined): boolean {
    return index === undefined
      ? this.#closing >= other.#closing
      : this.#countOf(index) >= other.#countOf(index);
  }

  toString(): string {
    const counts = Array.from(this.#counts, (count) => count ?? 0);
    const closing = this.#closing === 0 ? '' : `-${this.#closing}`;
    return `${counts.length === 0 ? '0' : counts.join('.')}${closing}`;
  }

  #countOf(index: number): number {
    return this.#counts[index] ?? 0;
  }
}
