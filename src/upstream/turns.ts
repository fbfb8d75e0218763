// Turns at an upstream that takes a limited number of requests at once: higher tiers first, then in order of arrival.

interface Waiting {
  readonly priority: number;
  readonly begin: () => void;
}

export class Turns {
  readonly #most: number;
  readonly #waiting: Waiting[] = [];
  #running = 0;

  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  /** Resolves with what ends the turn. Lower numbers go first. An abort ends the wait. */
  async take(priority: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#running < this.#most) this.#running++;
    else await this.#wait(priority, signal);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next.begin();
    };
  }

  /** Whoever ends a turn hands it on, so that the number of running requests stays as it is. */
  #wait(priority: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const one: Waiting = {
        priority,
        begin: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(one), 1);
        reject(signal.reason);
      };
      const behind = this.#waiting.findIndex((other) => other.priority > priority);
      this.#waiting.splice(behind === -1 ? this.#waiting.length : behind, 0, one);
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}
