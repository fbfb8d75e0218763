// Waiting for a GPU. While something is awaited, Dawn's binding asks the driver again and again: a core is busy with it,
// and what that leaves behind takes 100 ms to collect, once a second, in which nothing moves. So most of a long step is
// slept through, where steps like it were timed before.

/** Of the time that such steps take. */
const SLEPT_SHARE = 0.85;
/** Timers are late by up to one: shorter sleeps are not worth it. */
const LEAST_MS = 4;
/** What a step took longer than those before it is mostly a delay of its own: it is believed by so much. */
const GROWTH = 1.05;
/** Steps that are timed before any is slept through: the first may begin cold, another be held up. */
const TRIALS = 3;

export class Patience {
  #kind = '';
  #trials = 0;
  #ms = Number.POSITIVE_INFINITY;

  /** How many milliseconds to sleep, `elapsed` after work of some kind has begun; 0 where it is not worth it. */
  restMs(kind: string, elapsed: number): number {
    if (kind !== this.#kind || this.#trials < TRIALS) return 0;
    const ms = SLEPT_SHARE * this.#ms - elapsed;
    return ms < LEAST_MS ? 0 : Math.floor(ms);
  }

  /** Work of this kind has taken so long; `overslept` where it was done before anybody looked. */
  learn(kind: string, ms: number, overslept: boolean): void {
    if (kind !== this.#kind) {
      this.#kind = kind;
      this.#trials = 0;
      this.#ms = Number.POSITIVE_INFINITY;
    }
    this.#trials++;
    this.#ms = overslept ? ms / 2 : Math.min(ms, GROWTH * this.#ms);
  }
}
