// Notices when an engine hangs: it owes something, and for too long it has said nothing at all, or no step of its
// running sequences has ended. It is asked before: native steps leave its event loop free to answer.

interface Watched {
  /** Whether anything is owed. */
  busy(): boolean;
  /** Has it say something, and how far it is. */
  ask(): void;
  /** `cause` follows "the engine process". */
  hung(cause: string): void;
}

/** Checks within the limit's time; the engine is asked from a quarter of it on. */
const CHECKS = 16;
const CHECKS_BEFORE_ASKING = 4;
/** Timers go no further: more than a year is as long as a year. */
const LONGEST_CHECK_MS = 2 ** 31 - 1;

export class Watchdog {
  readonly #limitMs: number;
  readonly #watched: Watched;
  readonly #timer: NodeJS.Timeout;
  // In checks, not by the clock: where the server itself was held up, the engine had no chance to be heard.
  #silentChecks = 0;
  #idleChecks = 0;

  constructor(limitMs: number, watched: Watched) {
    this.#limitMs = limitMs;
    this.#watched = watched;
    this.#timer = setInterval(() => this.#check(), Math.min(limitMs / CHECKS, LONGEST_CHECK_MS)).unref();
  }

  /** It said something. */
  heard(): void {
    this.#silentChecks = 0;
  }

  /** It has come further, or has nothing to compute. */
  advanced(): void {
    this.#silentChecks = 0;
    this.#idleChecks = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    if (!this.#watched.busy()) {
      this.advanced();
      return;
    }
    this.#silentChecks++;
    this.#idleChecks++;
    const seconds = this.#limitMs / 1000;
    if (this.#silentChecks > CHECKS) this.#report(`said nothing for ${seconds} s`);
    else if (this.#idleChecks > CHECKS) this.#report(`ended no step for ${seconds} s`);
    else if (this.#idleChecks % CHECKS_BEFORE_ASKING === 0) this.#watched.ask();
  }

  #report(cause: string): void {
    this.stop();
    this.#watched.hung(cause);
  }
}
