// How fast pieces of vision towers are computed, learned from those that were: how much work fits a time.

/** Weight of a measurement after n further ones: MEMORY^n. */
const MEMORY = 0.8;
/** The rate is believed up to this factor of the most that was measured in one go. */
const EXTRAPOLATION = 4;

export class WorkRate {
  #work = 0;
  #ms = 0;
  #largest = 0;
  /** Work beyond what was asked for, as pieces are not divided. */
  #excess = 0;

  /** `done` took so long where `asked` was asked for. */
  observe(asked: number, done: number, ms: number): void {
    if (!(done > 0 && ms > 0)) return;
    this.#work = MEMORY * this.#work + done;
    this.#ms = MEMORY * this.#ms + ms;
    this.#largest = Math.max(this.#largest, done);
    this.#excess = MEMORY * this.#excess + (1 - MEMORY) * Math.max(0, done - asked);
  }

  /** What to ask for. Before anything was measured the least: one piece. */
  workWithin(ms: number): number {
    if (this.#ms === 0) return 1;
    return Math.min(EXTRAPOLATION * this.#largest, Math.max(1, this.#fitting(ms) - this.#excess));
  }

  /** Whether a further piece fits. */
  hasRoom(ms: number): boolean {
    return ms > 0 && (this.#ms === 0 || this.#fitting(ms) > 2 * this.#excess);
  }

  #fitting(ms: number): number {
    return (ms * this.#work) / this.#ms;
  }
}
