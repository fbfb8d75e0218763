// The running requests of a key and how long its requests take, to estimate when one of them will end.

const SHORTEST_WAIT_MS = 1000;
const NEWEST_SHARE = 0.2;

interface RunningRequest {
  readonly startedMs: number;
}

export class RunningRequests {
  readonly #running = new Set<RunningRequest>();
  #meanMs: number | undefined;

  get count(): number {
    return this.#running.size;
  }

  start(nowMs: number): RunningRequest {
    const request = { startedMs: nowMs };
    this.#running.add(request);
    return request;
  }

  drop(request: RunningRequest): void {
    this.#running.delete(request);
  }

  end(request: RunningRequest, nowMs: number): void {
    this.#running.delete(request);
    const tookMs = Math.max(0, nowMs - request.startedMs);
    this.#meanMs =
      this.#meanMs === undefined ? tookMs : this.#meanMs + NEWEST_SHARE * (tookMs - this.#meanMs);
  }

  /** The time until the oldest request should end, if it takes as long as those before it; at least a second. */
  expectedWaitMs(nowMs: number): number {
    // The oldest need not be the first that came: the clock may have been set back since.
    const oldestMs = [...this.#running].reduce<number | undefined>(
      (oldest, { startedMs }) => Math.min(oldest ?? startedMs, startedMs),
      undefined,
    );
    return expectedWait(oldestMs, this.#meanMs, nowMs);
  }
}

export function expectedWait(
  oldestMs: number | undefined,
  meanMs: number | undefined,
  nowMs: number,
): number {
  if (oldestMs === undefined || meanMs === undefined) return SHORTEST_WAIT_MS;
  return Math.max(SHORTEST_WAIT_MS, Math.ceil(oldestMs + meanMs - nowMs));
}
