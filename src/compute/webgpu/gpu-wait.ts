// Waiting for a GPU. While a promise is pending, Dawn's Node binding polls in every turn of the event loop, keeps a core busy
// and leaves an object each time; once a second their collection takes 100 ms, in which nothing else runs. So most of a
// long step is slept through, where steps like it were timed before, and turns of the event loop are made to last.

/** Of the time that steps of a kind take. */
const SLEPT_SHARE = 0.85;
/** Timers are late by up to a millisecond: shorter sleeps are not worth it. */
const LEAST_MS = 4;
/** A step that takes longer than those before it was mostly delayed: the estimate grows by no more than this. */
const GROWTH = 1.05;
/** Steps that are timed before any is slept through: the first may begin cold, another be held up. */
const TRIALS = 3;

export class StepTimer {
  #kind = '';
  #trials = 0;
  #ms = Number.POSITIVE_INFINITY;

  /** Milliseconds to sleep, `elapsed` after a step of some kind has begun; 0 where it is not worth it. */
  sleepMs(kind: string, elapsed: number): number {
    if (kind !== this.#kind || this.#trials < TRIALS) return 0;
    const ms = SLEPT_SHARE * this.#ms - elapsed;
    return ms < LEAST_MS ? 0 : Math.floor(ms);
  }

  /** A step took `ms`; `overslept` where it was done before the sleep ended. */
  record(kind: string, ms: number, overslept: boolean): void {
    if (kind !== this.#kind) {
      this.#kind = kind;
      this.#trials = 0;
      this.#ms = Number.POSITIVE_INFINITY;
    }
    this.#trials++;
    this.#ms = overslept ? ms / 2 : Math.min(ms, GROWTH * this.#ms);
  }
}

/** The system adds about as much; a promise settles half a turn late. */
const TURN_MS = 0.05;

const never = new Int32Array(new SharedArrayBuffer(4));

/** Awaits a promise of Dawn's; messages and timers are served between turns. */
export async function inSlowTurns<T>(promise: Promise<T>): Promise<T> {
  let isWaiting = true;
  const turn = () => {
    if (!isWaiting) return;
    Atomics.wait(never, 0, 0, TURN_MS);
    setImmediate(turn);
  };
  setImmediate(turn);
  try {
    return await promise;
  } finally {
    isWaiting = false;
  }
}
