// By how much steps exceed what was expected of them: on a shared machine most take as long as the cost model says, and some much
// longer. What can wait leaves room for all but the worst of them.

/** Steps in a hundred that may take longer than expected and the overrun together. */
const WORSE = 1;

export class Overrun {
  #ms: number;
  readonly #stepMs: number;

  /** Starts at a guess; `stepMs` is how far one long step moves it. */
  constructor(guessMs: number, stepMs: number) {
    this.#ms = guessMs;
    this.#stepMs = stepMs;
  }

  /** A quantile that is followed: one long step moves it as far up as a hundred others move it down. */
  observe(ms: number): void {
    const moved = ms > this.#ms ? this.#stepMs * (1 - WORSE / 100) : (-this.#stepMs * WORSE) / 100;
    this.#ms = Math.max(0, this.#ms + moved);
  }

  get ms(): number {
    return this.#ms;
  }
}
