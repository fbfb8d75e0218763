// A machine with a clock of its own, which drifts and jumps, and a process on it, which can be stopped, continued and killed.

import type { Clock, RandomBytes, Timer } from '../../src/runtime/clock.ts';
import type { Chance } from '../chaos/chance.ts';
import type { Moment, Owner, VirtualTime } from './virtual-time.ts';

/** Some day in 2026. */
const EPOCH_MS = 1_790_000_000_000;

export class Machine {
  readonly name: string;
  readonly #time: VirtualTime;
  /** Milliseconds of its clock in one of true time. */
  readonly rate: number;
  #offsetMs = 0;

  constructor(name: string, time: VirtualTime, rate: number) {
    this.name = name;
    this.#time = time;
    this.rate = rate;
  }

  /** Somebody sets its clock; its monotonic one is not touched. */
  jump(byMs: number): void {
    this.#offsetMs += byMs;
  }

  get wallMs(): number {
    return EPOCH_MS + this.monotonicMs + this.#offsetMs;
  }

  get monotonicMs(): number {
    return this.#time.nowMs * this.rate;
  }
}

export class SimulatedProcess implements Owner {
  state: Owner['state'] = 'running';
  readonly machine: Machine;
  readonly name: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly #time: VirtualTime;
  readonly #endings = new Set<() => void>();
  #held: Moment[] = [];

  constructor(name: string, machine: Machine, time: VirtualTime, chance: Chance) {
    this.name = name;
    this.machine = machine;
    this.#time = time;
    this.clock = {
      wallMs: () => machine.wallMs,
      monotonicMs: () => machine.monotonicMs,
      after: (durationMs, run) => this.#after(durationMs, run),
      every: (periodMs, run) => this.#every(periodMs, run),
      soon: (run) => void time.at(time.nowMs, this, run),
    };
    this.randomBytes = (count) => {
      const bytes = new Uint8Array(count);
      for (let at = 0; at < count; at++) bytes[at] = chance.below(256);
      return bytes;
    };
  }

  /** Has the process do something, from outside: what it is told while it is stopped, it hears when it continues. */
  run(action: () => void, afterMs = 0): void {
    this.#time.after(afterMs, this, action);
  }

  /** Called when it ends: whoever speaks with it hears that its connections are gone. */
  onDeath(listener: () => void): () => void {
    this.#endings.add(listener);
    return () => this.#endings.delete(listener);
  }

  stall(): void {
    if (this.state === 'running') this.state = 'stalled';
  }

  continue(): void {
    if (this.state !== 'stalled') return;
    this.state = 'running';
    for (const moment of this.#held.splice(0)) this.#time.again(moment);
  }

  kill(): void {
    this.state = 'dead';
    this.#held = [];
    for (const listener of [...this.#endings]) listener();
    this.#endings.clear();
  }

  hold(moment: Moment): void {
    this.#held.push(moment);
  }

  #after(durationMs: number, run: () => void): Timer {
    const moment = this.#time.after(Math.max(1, durationMs) / this.machine.rate, this, run);
    return timerOf(() => this.#time.cancel(moment));
  }

  /** One that comes late does not come several times. */
  #every(periodMs: number, run: () => void): Timer {
    const stepMs = Math.max(1, periodMs) / this.machine.rate;
    let moment: Moment;
    const next = () => {
      moment = this.#time.after(stepMs, this, () => {
        next();
        run();
      });
    };
    next();
    return timerOf(() => this.#time.cancel(moment));
  }
}

function timerOf(end: () => void): Timer {
  const timer: Timer = { end, unref: () => timer };
  return timer;
}
