// How fast pieces of vision towers are computed, learned from those that were: how much work fits a time.

/** Weight of a measurement after n further ones: MEMORY^n. */
const MEMORY = 0.8;
/** The rate is believed up to this factor of the most that was measured in one go. */
const EXTRAPOLATION = 4;

export class WorkRate {
  #work = 0;
  #ms = 0;
  #largest = 0;

  observe(work: number, ms: number): void {
    if (!(work > 0 && ms > 0)) return;
    this.#work = MEMORY * this.#work + work;
    this.#ms = MEMORY * this.#ms + ms;
    this.#largest = Math.max(this.#largest, work);
  }

  /** Before anything was measured the least: one piece. */
  workWithin(ms: number): number {
    if (this.#ms === 0) return 1;
    return Math.min(EXTRAPOLATION * this.#largest, Math.max(1, (ms * this.#work) / this.#ms));
  }
}
