// How long a step takes by the number of its rows, where nobody computes a prompt: learned from steps that were measured.
// The weights are read once, however many rows there are, so that a few more cost little, until arithmetic takes longer than
// reading. Where that begins depends on machine and model, and the way there has steps: kernels take rows in fours or eights.

/** Steps of more rows are not measured, and not wanted for drafts. */
const MOST_ROWS = 64;
/** What is known of a number of rows counts like this many comparisons at most: what they cost changes with the sequences. */
const MOST_COMPARISONS = 20;
/** A step is not believed to be further than this factor from what was expected. */
const MOST_SURPRISE = 2;
/** How much slower the machine is just now follows each step by this. */
const DRIFT = 0.1;
/** What was not measured for this many steps is forgotten, and sooner what was measured only once or twice: it may have been an accident. */
const FORGOTTEN_AFTER = 1000;
const FORGOTTEN_AFTER_ONE = 100;
const FRESH_FOR = 32;
/** Each row costs something. */
const MIN_SLOPE = 1e-4;
/** More rows than were seen cost at least this part of what is usual, in proportion. */
const LEAST_GROWTH = 0.3;
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

/**
 * A step is compared with the last one that decoded, if that had other rows: a machine that is slow for a while, or sequences
 * that grow, then say nothing of what rows cost.
 */
export class RowCosts {
  readonly #ms = new Float64Array(MOST_ROWS + 1);
  readonly #comparisons = new Float64Array(MOST_ROWS + 1);
  /** By number of rows, the last step with that many; 0 where there was none. */
  readonly #seenAt = new Float64Array(MOST_ROWS + 1);
  #last: RowTime | undefined;
  /** How much slower the machine is just now, or its sequences longer. */
  #pace = 1;
  #steps = 0;
  /** What is usual, by rows. */
  readonly #usual: Float64Array;
  readonly #isMeasured: boolean;

  /** `before`: measured before the first step, fewer rows first. */
  constructor(before: readonly RowTime[] = USUAL) {
    this.#isMeasured = before !== USUAL && before.length >= 2;
    this.#usual = curveThrough(this.#isMeasured ? withoutPeaks(before) : USUAL);
  }

  /** Whether there was a step of `rows` not long ago: others need one to be compared with. */
  isFresh(rows: number): boolean {
    const seenAt = this.#seenAt[rows] ?? 0;
    return seenAt > 0 && this.#steps - seenAt < FRESH_FOR;
  }

  observe(rows: number, ms: number): void {
    if (rows < 1 || rows > MOST_ROWS || !(ms > 0)) return;
    this.#steps += 1;
    this.#forget();
    if (this.#last !== undefined && this.#last.rows !== rows) this.#compare(this.#last, { rows, ms });
    this.#last = { rows, ms };
    this.#seenAt[rows] = this.#steps;
    // What is usual may have another unit: the first step shows it.
    if (this.#steps === 1) this.#pace = ms / this.of(rows);
    else this.#pace *= believable(ms / this.#pace / this.of(rows)) ** DRIFT;
  }

  /** Two steps, one after the other: the less is known of a number of rows, the more of a difference is its. */
  #compare(one: RowTime, other: RowTime): void {
    const surprise = believable(other.ms / one.ms / (this.of(other.rows) / this.of(one.rows)));
    const doubt = (rows: number) => 1 / (1 + (this.#comparisons[rows] as number));
    const all = 1 + doubt(one.rows) + doubt(other.rows);
    const [less, more] = [surprise ** (-doubt(one.rows) / all), surprise ** (doubt(other.rows) / all)];
    this.#learn(one.rows, this.of(one.rows) * less);
    this.#learn(other.rows, this.of(other.rows) * more);
  }

  #learn(rows: number, ms: number): void {
    this.#ms[rows] = ms;
    this.#comparisons[rows] = Math.min(MOST_COMPARISONS, (this.#comparisons[rows] as number) + 1);
  }

  /** Milliseconds of now, in the machine's usual state; undefined before the first step where none was measured. */
  usually(ms: number): number | undefined {
    return this.#steps > 0 || this.#isMeasured ? ms / this.#pace : undefined;
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
    if (lower !== undefined) return this.#beyond(lower, rows);
    if (upper === undefined) return this.#usualOf(rows);
    return ((this.#ms[upper] as number) * this.#usualOf(rows)) / this.#usualOf(upper);
  }

  /** More rows than were seen: from the most that were, as the fewest show. A step also takes what does not grow with its rows. */
  #beyond(most: number, rows: number): number {
    const mostMs = this.#ms[most] as number;
    const proportional = mostMs / this.#usualOf(most);
    const fewest = this.#nearest(1, 1) as number;
    const seen = (mostMs - (this.#ms[fewest] as number)) / (this.#usualOf(most) - this.#usualOf(fewest));
    const slope =
      fewest === most ? proportional : Math.min(Math.max(seen, LEAST_GROWTH * proportional), proportional);
    return mostMs + slope * (this.#usualOf(rows) - this.#usualOf(most));
  }

  #usualOf(rows: number): number {
    return this.#usual[rows] as number;
  }

  #has(rows: number): boolean {
    return this.#comparisons[rows] !== undefined && this.#comparisons[rows] > 0;
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
    const lasts = Math.min(FORGOTTEN_AFTER, FORGOTTEN_AFTER_ONE * (this.#comparisons[rows] as number));
    if (this.#steps - (this.#seenAt[rows] as number) <= lasts) return;
    this.#ms[rows] = 0;
    this.#comparisons[rows] = 0;
  }
}

function believable(factor: number): number {
  return Math.min(Math.max(factor, 1 / MOST_SURPRISE), MOST_SURPRISE);
}

/** Without those above the line between their neighbours: each row costs as much as the one before it or more, but a machine is not always still. */
function withoutPeaks(points: readonly RowTime[]): RowTime[] {
  const kept: RowTime[] = [];
  for (const point of points) {
    while (kept.length > 1 && isPeak(kept.at(-2) as RowTime, kept.at(-1) as RowTime, point)) kept.pop();
    kept.push(point);
  }
  return kept;
}

function isPeak(before: RowTime, between: RowTime, after: RowTime): boolean {
  return slope(before, between) > slope(before, after);
}

function slope(from: RowTime, to: RowTime): number {
  return (to.ms - from.ms) / (to.rows - from.rows);
}

/** Lines from point to point, and on beyond the last one as before it. */
function curveThrough(points: readonly RowTime[]): Float64Array {
  const curve = new Float64Array(MOST_ROWS + 1);
  // Measurements waver, but more rows never take less.
  let [from, to] = [points[0] as RowTime, points[1] as RowTime];
  for (let rows = 1, next = 2; rows <= MOST_ROWS; rows++) {
    while (rows > to.rows && next < points.length) [from, to] = [to, points[next++] as RowTime];
    const perRow = Math.max(MIN_SLOPE * from.ms, slope(from, to));
    curve[rows] = Math.max(
      (curve[rows - 1] as number) * (1 + MIN_SLOPE),
      from.ms + (rows - from.rows) * perRow,
    );
  }
  return curve;
}
