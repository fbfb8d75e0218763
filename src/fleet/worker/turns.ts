// So many jobs at once; the others wait in the order in which they came.

export class Turns {
  readonly #most: number;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Rejects with the signal's reason where it comes before the turn does. */
  async run<Result>(job: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    signal.throwIfAborted();
    if (this.#running < this.#most) this.#running += 1;
    else await this.#turn(signal);
    try {
      return await job();
    } finally {
      const [next] = this.#waiting;
      // Who waits has the place at once.
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        this.#waiting.delete(enter);
        signal.removeEventListener('abort', abort);
      };
      const enter = () => {
        end();
        resolve();
      };
      const abort = () => {
        end();
        reject(signal.reason as Error);
      };
      this.#waiting.add(enter);
      signal.addEventListener('abort', abort, { once: true });
    });
  }
}
