// Where a gateway would have models loaded: what is desired, read now and then, over the workers that it knows. All gateways
// derive the same from the same statuses; workers load what any of them names.

import type { Clock } from '../../runtime/clock.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Bus } from '../bus.ts';
import { LEASE_MS, type Membership } from '../membership.ts';
import type { PlacedNodes } from '../messages.ts';
import { type DesiredState, placedOn } from '../placement.ts';

const READ_EVERY_MS = 2000;

interface PlacingOptions {
  readonly desired: DesiredState;
  readonly membership: Membership;
  readonly bus: Bus;
  readonly nowMs: () => number;
  readonly clock: Clock;
  readonly onProblem: (message: string) => void;
}

export class Placing {
  readonly #options: PlacingOptions;
  readonly #endings: (() => void)[] = [];
  #placed: PlacedNodes | undefined;
  /** Since when it has heard the fleet. */
  #sinceMs: number;
  #isReading = false;

  constructor(options: PlacingOptions) {
    this.#options = options;
    const { bus, clock, nowMs } = options;
    this.#sinceMs = nowMs();
    const timer = clock.every(READ_EVERY_MS, () => void this.#read());
    this.#endings.push(
      () => timer.end(),
      bus.onState((state) => {
        this.#placed = undefined;
        if (state === 'connected') this.#sinceMs = nowMs();
      }),
    );
  }

  /** Undefined until it has heard every worker: it would name others in place of those it does not know yet. */
  get placed(): PlacedNodes | undefined {
    return this.#placed;
  }

  close(): void {
    for (const end of this.#endings) end();
  }

  async #read(): Promise<void> {
    const { bus, nowMs, desired, membership, onProblem } = this.#options;
    const isSettled = () => bus.state === 'connected' && nowMs() - this.#sinceMs >= LEASE_MS;
    if (this.#isReading || !isSettled()) return;
    this.#isReading = true;
    try {
      const placements = await desired.placements();
      const workers = membership.workers();
      if (isSettled())
        this.#placed = Object.fromEntries(placements.map((one) => [one.model, placedOn(one, workers)]));
    } catch (error) {
      onProblem(`what the fleet desires cannot be read: ${messageOf(error)}`);
    } finally {
      this.#isReading = false;
    }
  }
}
