// Tells when an engine hangs: it owes something, and for too long it has said nothing at all, or no step of its
// running sequences has ended. It is asked before: native steps leave its event loop free to answer.

interface Watched {
  /** Whether anything is owed. */
  busy(): boolean;
  /** Has it say something, and how far it is. */
  ask(): void;
  /** `cause` follows "the engine process". */
  hung(cause: string): void;
}

/** The limit is looked at so often within its time; it is asked from a quarter of it on. */
const LOOKS = 16;
const LOOKS_BEFORE_ASKING = 4;
/** Timers go no further: more than a year is as long as a year. */
const LONGEST_LOOK_MS = 2 ** 31 - 1;

export class Watchdog {
  readonly #limitMs: number;
  readonly #watched: Watched;
  readonly #timer: NodeJS.Timeout;
  // In looks, not by the clock: where the server itself was held up, the engine had no chance to be heard.
  #silentLooks = 0;
  #idleLooks = 0;

  constructor(limitMs: number, watched: Watched) {
    this.#limitMs = limitMs;
    this.#watched = watched;
    this.#timer = setInterval(() => this.#look(), Math.min(limitMs / LOOKS, LONGEST_LOOK_MS)).unref();
  }

  /** It said something. */
  heard(): void {
    this.#silentLooks = 0;
  }

  /** It has come further, or has nothing to compute. */
  advanced(): void {
    this.#silentLooks = 0;
    this.#idleLooks = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    if (!this.#watched.busy()) {
      this.advanced();
      return;
    }
    this.#silentLooks++;
    this.#idleLooks++;
    const seconds = this.#limitMs / 1000;
    if (this.#silentLooks > LOOKS) this.#report(`said nothing for ${seconds} s`);
    else if (this.#idleLooks > LOOKS) this.#report(`ended no step for ${seconds} s`);
    else if (this.#idleLooks % LOOKS_BEFORE_ASKING === 0) this.#watched.ask();
  }

  #report(cause: string): void {
    this.stop();
    this.#watched.hung(cause);
  }
}
