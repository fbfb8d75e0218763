// Keeps the memory that a device has taken for KV blocks in step with what the scheduler may hold: before a plan there is
// room for all that it may take, after it none is left that it may no longer have. A device that refuses memory limits the
// scheduler, which then preempts as it does under any limit, and is asked again after a while.

import type { BlockMemory } from '../compute/backend.ts';
import type { Scheduler } from './scheduler/scheduler.ts';

/** Pause before a device that refused is asked again. */
export const RETRY_MS = 1000;
/** Refusals in a row, a retry apart, after which a sequence that cannot run even alone ends. */
const MOST_REFUSALS = 30;

export class ResidentBlocks {
  readonly #memory: BlockMemory;
  readonly #scheduler: Scheduler;
  readonly #nowMs: () => number;
  /** Of growing, in a row. */
  #refusals = 0;
  #growsAgainMs = Number.NEGATIVE_INFINITY;
  #shrinksAgainMs = Number.NEGATIVE_INFINITY;

  constructor(memory: BlockMemory, scheduler: Scheduler, nowMs: () => number) {
    this.#memory = memory;
    this.#scheduler = scheduler;
    this.#nowMs = nowMs;
  }

  /** The device has no memory for what was allowed. */
  get refused(): boolean {
    return this.#refusals > 0;
  }

  /** Nobody should wait for it any longer. */
  get refusedForGood(): boolean {
    return this.#refusals >= MOST_REFUSALS;
  }

  get capacity(): number {
    return this.#memory.capacity;
  }

  /** Whether a plan may be made at once, with nothing to do before or after it. */
  get isSettled(): boolean {
    const { capacity } = this.#memory;
    return (
      !this.refused &&
      this.#scheduler.mostHeldAfterPlan() <= capacity &&
      capacity <= this.#scheduler.grantedBlocks
    );
  }

  /** Undefined where there is room for all that a plan may take which is made at once. */
  beforePlan(): Promise<void> | undefined {
    const scheduler = this.#scheduler;
    if (this.refused && this.#nowMs() >= this.#growsAgainMs) scheduler.limitToDevice(undefined);
    const needed = scheduler.mostHeldAfterPlan();
    if (needed > this.#memory.capacity) {
      // What is held already becomes less by the plan alone.
      const isRefused = this.refused && this.#nowMs() < this.#growsAgainMs;
      return isRefused ? undefined : this.#grow(needed);
    }
    if (!scheduler.isLimitedByDevice) this.#refusals = 0;
    return undefined;
  }

  async #grow(needed: number): Promise<void> {
    const capacity = await this.#memory.fit(needed, this.#scheduler.grantedBlocks);
    if (capacity >= needed) {
      this.#refusals = 0;
      return;
    }
    this.#refusals += 1;
    this.#growsAgainMs = this.#nowMs() + RETRY_MS;
    this.#scheduler.limitToDevice(capacity);
  }

  async afterPlan(): Promise<void> {
    const { grantedBlocks, tables } = this.#scheduler;
    if (this.#memory.capacity <= grantedBlocks || this.#nowMs() < this.#shrinksAgainMs) return;
    const capacity = await this.#memory.fit(tables.pool.residentCount, grantedBlocks);
    if (capacity > grantedBlocks) this.#shrinksAgainMs = this.#nowMs() + RETRY_MS;
  }
}
