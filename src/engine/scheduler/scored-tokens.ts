// A sequence whose own tokens are scored: how likely each was after those before it, gathered as rows are computed, in the order
// of positions, so that neither chunks nor preemption change anything.

import type { TokenLogprobs } from '../../sampling/sample-row.ts';
import type { Stretch } from './pooled-states.ts';

const none: Stretch = [0, 0];

export class ScoredTokens {
  readonly #scores: TokenLogprobs[] = [];
  /** Rows whose logits are wanted: all but the last, which nothing follows. */
  readonly #rows: number;

  constructor(length: number) {
    this.#rows = length - 1;
  }

  get isComplete(): boolean {
    return this.#scores.length === this.#rows;
  }

  /** Of all tokens but the first. */
  get scores(): readonly TokenLogprobs[] {
    return this.#scores;
  }

  /** Rows before it are computed for their KV alone. */
  get firstRequiredPosition(): number {
    return this.isComplete ? Number.POSITIVE_INFINITY : this.#scores.length;
  }

  /** Which rows of positions `start … start + count - 1` are wanted. */
  wantedOf(start: number, count: number): Stretch {
    const from = Math.max(start, this.#scores.length);
    const to = Math.min(start + count, this.#rows);
    return from < to ? [from, to] : none;
  }

  /** Adds the scores of the next positions. */
  add(scores: readonly TokenLogprobs[]): void {
    this.#scores.push(...scores);
  }
}
