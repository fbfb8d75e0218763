// Waiting for a GPU. While something is awaited, Dawn's binding asks the driver again and again: a core is busy with it,
// and what that leaves behind takes 100 ms to collect, once a second, in which nothing moves. So most of a long step is
// slept through, where steps like it were timed before.

/** Of the time that such steps take. */
const SLEPT_SHARE = 0.85;
/** Timers are late by up to one: shorter sleeps are not worth it. */
const LEAST_MS = 4;
/** What a step took longer than those before it is mostly a delay of its own: it is believed by so much. */
const GROWTH = 1.05;

export class Patience {
  #kind = '';
  /** Unknown after the first step of a kind, which may have had to begin cold. */
  #ms: number | undefined;

  /** How many milliseconds to sleep, `elapsed` after work of some kind has begun; 0 where it is not worth it. */
  restMs(kind: string, elapsed: number): number {
    const known = kind === this.#kind ? (this.#ms ?? 0) : 0;
    const ms = SLEPT_SHARE * known - elapsed;
    return ms < LEAST_MS ? 0 : Math.floor(ms);
  }

  /** Work of this kind has taken so long. */
  learn(kind: string, ms: number): void {
    const isKnown = kind === this.#kind;
    this.#ms = isKnown ? Math.min(ms, GROWTH * (this.#ms ?? ms)) : undefined;
    this.#kind = kind;
  }
}
