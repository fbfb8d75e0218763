// How long a step takes by the number of its rows, where nobody computes a prompt: learned from steps that were measured.
// The weights are read once, however many rows there are, so that a few more cost little, until arithmetic takes longer than
// reading. Where that begins depends on machine and model, and the way there has steps: kernels take rows in fours or eights.

/** Steps of more rows are not measured, and not wanted for guesses. */
const MOST_ROWS = 64;
/** What a measurement counts beside those before it, at least. */
const LEARNING = 0.05;
/** The machine's own ups and downs are followed too: they say nothing of one number of rows. */
const DRIFT = 0.1;
/** A step is not believed to be further than this factor from what was expected. */
const MOST_SURPRISE = 2;
/** What was not measured for so many steps is forgotten, and sooner what was measured only once or twice: it may have been an accident. */
const FORGOTTEN_AFTER = 1000;
const FORGOTTEN_AFTER_ONE = 100;
const FRESH_FOR = 32;
/** Rows beyond those that were measured cost at least this share of what is usual, at best. */
const LEAST_SLOPE = 0.5;

export class RowCosts {
  readonly #ms = new Float64Array(MOST_ROWS + 1);
  readonly #measured = new Float64Array(MOST_ROWS + 1);
  readonly #measuredAt = new Float64Array(MOST_ROWS + 1);
  /** How much slower the machine is just now, or its sequences longer. */
  #pace = 1;
  #steps = 0;

  /** Whether a step of so many rows was measured not long ago: without one, a slow machine is taken for slow guesses. */
  isFresh(rows: number): boolean {
    return this.#has(rows) && this.#steps - (this.#measuredAt[rows] as number) < FRESH_FOR;
  }

  observe(rows: number, ms: number): void {
    if (rows < 1 || rows > MOST_ROWS || !(ms > 0)) return;
    this.#steps += 1;
    this.#forget();
    const expected = this.#steps === 1 ? ms : this.of(rows);
    const believed = Math.min(Math.max(ms / this.#pace, expected / MOST_SURPRISE), expected * MOST_SURPRISE);
    const before = this.#ms[rows] as number;
    const count = (this.#measured[rows] as number) + 1;
    if (count > 1) this.#pace *= 1 + DRIFT * (believed / expected - 1);
    this.#ms[rows] = before + Math.max(1 / count, LEARNING) * (believed - before);
    this.#measured[rows] = count;
    this.#measuredAt[rows] = this.#steps;
  }

  /** So many milliseconds of now, in the machine's usual state. */
  usually(ms: number): number {
    return ms / this.#pace;
  }

  /** Milliseconds, in the machine's usual state; only comparisons count. Beyond what was measured, as is usual. */
  of(rows: number): number {
    return this.#estimate(rows, (last) => this.#usualSlopeAt(last));
  }

  /** The same, where rows beyond those that were measured cost no more than the last ones did: a try will show. */
  atBest(rows: number): number {
    return this.#estimate(rows, (last) => this.#bestSlopeAt(last));
  }

  #estimate(rows: number, slopeAt: (last: number) => number): number {
    if (rows > MOST_ROWS) return Number.POSITIVE_INFINITY;
    if (this.#has(rows)) return this.#ms[rows] as number;
    const lower = this.#nearest(rows, -1);
    const upper = this.#nearest(rows, 1);
    // Between two that were measured, as far along as is usual.
    if (lower !== undefined && upper !== undefined) {
      const share = (usual(rows) - usual(lower)) / (usual(upper) - usual(lower));
      const from = this.#ms[lower] as number;
      return from + share * ((this.#ms[upper] as number) - from);
    }
    if (lower !== undefined) return (this.#ms[lower] as number) + (rows - lower) * slopeAt(lower);
    return upper === undefined ? usual(rows) : ((this.#ms[upper] as number) * usual(rows)) / usual(upper);
  }

  #usualSlopeAt(last: number): number {
    return ((this.#ms[last] as number) * (usual(last + 1) - usual(last))) / usual(last);
  }

  #bestSlopeAt(last: number): number {
    const expected = this.#usualSlopeAt(last);
    const before = this.#nearest(last - 1, -1);
    if (before === undefined) return expected;
    const seen = ((this.#ms[last] as number) - (this.#ms[before] as number)) / (last - before);
    return Math.min(expected, Math.max(LEAST_SLOPE * expected, seen));
  }

  #has(rows: number): boolean {
    return this.#measured[rows] !== undefined && this.#measured[rows] > 0;
  }

  /** The nearest number of rows that was measured. */
  #nearest(rows: number, direction: 1 | -1): number | undefined {
    for (let at = rows; at > 0 && at <= MOST_ROWS; at += direction) {
      if (this.#has(at)) return at;
    }
    return undefined;
  }

  #forget(): void {
    const rows = this.#steps % (MOST_ROWS + 1);
    const lasts = Math.min(FORGOTTEN_AFTER, FORGOTTEN_AFTER_ONE * (this.#measured[rows] as number));
    if (this.#steps - (this.#measuredAt[rows] as number) <= lasts) return;
    this.#ms[rows] = 0;
    this.#measured[rows] = 0;
  }
}

/** What rows cost on most machines, in steps of one row: little up to eight, from there on as much as they are. */
function usual(rows: number): number {
  return Math.max(1 + 0.04 * (rows - 1), 0.16 * rows);
}
