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
/** Each row costs something. */
const MIN_SLOPE = 1e-4;
/** Where nothing was measured before the first step: what rows cost on most machines, in steps of one. */
const USUAL: readonly RowTime[] = [
  { rows: 1, ms: 1 },
  { rows: 8, ms: 1.28 },
  { rows: MOST_ROWS, ms: 0.16 * MOST_ROWS },
];

export interface RowTime {
  readonly rows: number;
  readonly ms: number;
}

export class RowCosts {
  readonly #ms = new Float64Array(MOST_ROWS + 1);
  readonly #measured = new Float64Array(MOST_ROWS + 1);
  readonly #measuredAt = new Float64Array(MOST_ROWS + 1);
  /** How much slower the machine is just now, or its sequences longer. */
  #pace = 1;
  #steps = 0;
  /** What is usual, by rows. */
  readonly #usual: Float64Array;

  /** `before`: measured before the first step, fewer rows first. */
  constructor(before: readonly RowTime[] = USUAL) {
    this.#usual = curveThrough(before.length < 2 ? USUAL : before);
  }

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

  /** Milliseconds, in the machine's usual state; only comparisons count. */
  of(rows: number): number {
    if (rows > MOST_ROWS) return Number.POSITIVE_INFINITY;
    if (this.#has(rows)) return this.#ms[rows] as number;
    const lower = this.#nearest(rows, -1);
    const upper = this.#nearest(rows, 1);
    // Between two that were measured, as far along as is usual.
    if (lower !== undefined && upper !== undefined) {
      const share =
        (this.#usualOf(rows) - this.#usualOf(lower)) / (this.#usualOf(upper) - this.#usualOf(lower));
      const from = this.#ms[lower] as number;
      return from + share * ((this.#ms[upper] as number) - from);
    }
    const known = lower ?? upper;
    if (known === undefined) return this.#usualOf(rows);
    return ((this.#ms[known] as number) * this.#usualOf(rows)) / this.#usualOf(known);
  }

  #usualOf(rows: number): number {
    return this.#usual[rows] as number;
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

/** Lines from point to point, and on beyond the last one as before it. */
function curveThrough(points: readonly RowTime[]): Float64Array {
  const curve = new Float64Array(MOST_ROWS + 1);
  // Measurements waver, but more rows never take less.
  let [from, to] = [points[0] as RowTime, points[1] as RowTime];
  for (let rows = 1, next = 2; rows <= MOST_ROWS; rows++) {
    while (rows > to.rows && next < points.length) [from, to] = [to, points[next++] as RowTime];
    const slope = Math.max(MIN_SLOPE * from.ms, (to.ms - from.ms) / (to.rows - from.rows));
    curve[rows] = Math.max(
      (curve[rows - 1] as number) * (1 + MIN_SLOPE),
      from.ms + (rows - from.rows) * slope,
    );
  }
  return curve;
}
