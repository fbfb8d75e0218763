// How long a step takes by the number of its rows, where nobody computes a prompt: learned from steps that were measured.
// The weights are read once, however many rows there are, so that a few more cost little, until arithmetic takes longer than
// reading. Where that begins depends on machine and model; between measured numbers of rows the time is a straight line.

/** More rows are not told apart. */
const MOST_ROWS = 64;
/** What a row is thought to cost beyond all that were measured, as a share of a step of one. */
const FIRST_SLOPE = 0.02;
/** What a measurement counts beside those before it, at least. */
const LEARNING = 0.05;
/** The machine's own ups and downs are followed faster: they say nothing of one number of rows. */
const DRIFT = 0.3;
/** A step is not believed to be further than this factor from what was expected. */
const MOST_SURPRISE = 2;
/** What was not measured for so many steps is forgotten, for it may have been an accident. */
const FORGOTTEN_AFTER = 1000;

export class RowCosts {
  readonly #ms = new Float64Array(MOST_ROWS + 1);
  readonly #measured = new Float64Array(MOST_ROWS + 1);
  readonly #measuredAt = new Float64Array(MOST_ROWS + 1);
  /** How much slower the machine is just now, or its sequences longer. */
  #pace = 1;
  #steps = 0;

  /** Whether anything is known. */
  get isKnown(): boolean {
    return this.#steps > 0;
  }

  observe(rows: number, ms: number): void {
    if (rows < 1 || rows > MOST_ROWS || !(ms > 0)) return;
    this.#steps += 1;
    this.#forget();
    const expected = this.#steps === 1 ? ms : this.#at(rows);
    const believed = Math.min(Math.max(ms / this.#pace, expected / MOST_SURPRISE), expected * MOST_SURPRISE);
    const before = this.#ms[rows] as number;
    const count = (this.#measured[rows] as number) + 1;
    if (count > 1) this.#pace *= 1 + DRIFT * (believed / expected - 1);
    this.#ms[rows] = before + Math.max(1 / count, LEARNING) * (believed - before);
    this.#measured[rows] = count;
    this.#measuredAt[rows] = this.#steps;
  }

  /** Milliseconds, in the machine's usual state; only comparisons count. */
  of(rows: number): number {
    return this.#steps === 0 ? 1 + FIRST_SLOPE * rows : this.#at(rows);
  }

  #at(rows: number): number {
    const { lower, upper } = this.#around(rows);
    if (lower === 0) return this.#ms[upper] as number;
    const from = this.#ms[lower] as number;
    if (lower === rows) return from;
    if (upper > 0) return from + ((rows - lower) / (upper - lower)) * ((this.#ms[upper] as number) - from);
    return from + (rows - lower) * this.#slopeBelow(lower);
  }

  /** Of the last two that were measured, and no less than what a row costs at first. */
  #slopeBelow(last: number): number {
    const least = (FIRST_SLOPE * (this.#ms[last] as number)) / last;
    const { lower } = this.#around(last - 1);
    if (lower === 0) return FIRST_SLOPE * (this.#ms[last] as number);
    return Math.max(least, ((this.#ms[last] as number) - (this.#ms[lower] as number)) / (last - lower));
  }

  /** The nearest numbers of rows that were measured; 0 where there is none. */
  #around(rows: number): { readonly lower: number; readonly upper: number } {
    let lower = Math.min(rows, MOST_ROWS);
    while (lower > 0 && this.#ms[lower] === 0) lower -= 1;
    let upper = rows;
    while (upper <= MOST_ROWS && this.#ms[upper] === 0) upper += 1;
    return { lower, upper: upper > MOST_ROWS ? 0 : upper };
  }

  #forget(): void {
    const rows = this.#steps % (MOST_ROWS + 1);
    if (this.#steps - (this.#measuredAt[rows] as number) <= FORGOTTEN_AFTER) return;
    this.#ms[rows] = 0;
    this.#measured[rows] = 0;
  }
}
