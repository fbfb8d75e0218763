// For how long nothing was wrong with some of a simulated fleet: what it owes then, it owes in time.

import type { Fault } from './faults.ts';

/** What a fault does is over so long after its end. */
const RECOVERY_MS = 20_000;
/** Silence is noticed after this time. */
const LATE_MS = 5000;
/** By then every node is there. */
const STARTED_MS = 15_000;

/** Of one node alone; all others strike everybody. */
function isOf(role: 'worker' | 'gateway', { kind }: Fault): boolean {
  if (kind.startsWith('engine') || kind === 'refused subscription') return role === 'worker';
  if (kind === 'archive stale leader') return role === 'gateway';
  return kind.includes(role);
}

/** What does not touch workers, or the way to them. */
const harmless: ReadonlySet<string> = new Set([
  'stall gateway',
  'gateway clock jumps',
  'worker clock jumps',
  'lost submits',
  'lost ends',
]);

/** A message that is lost once is sent again: nobody waits for long. */
const repeated: ReadonlySet<string> = new Set(['lost submits', 'lost ends']);

export class Calm {
  readonly #faults: Fault[] = [];
  readonly #workers: number;
  readonly #gateways: number;

  constructor(workers: number, gateways: number) {
    this.#workers = workers;
    this.#gateways = gateways;
  }

  /** With when and whom it struck. */
  struck(fault: Fault): void {
    this.#faults.push(fault);
  }

  get faults(): readonly Fault[] {
    return this.#faults;
  }

  wasHeldUp(gateway: string, fromMs: number): boolean {
    return this.#faults.some(
      ({ kind, target, atMs, durationMs }) =>
        kind === 'stall gateway' &&
        gateway === `g${target % this.#gateways}` &&
        atMs + durationMs >= fromMs - LATE_MS,
    );
  }

  isWellAtWorkers(fromMs: number, toMs: number): boolean {
    return this.#between(fromMs, toMs).every(
      ({ kind }) => harmless.has(kind) || /^(archive|database)/.test(kind),
    );
  }

  /** All but one worker, and this gateway, were well; what else strikes others is left out. */
  isServing(gateway: string, fromMs: number, toMs: number): boolean {
    if (fromMs < STARTED_MS) return false;
    const faults = this.#between(fromMs, toMs);
    const sick = new Set<number>();
    for (const fault of faults) {
      if (repeated.has(fault.kind)) continue;
      if (fault.kind === 'kill all workers') return false;
      if (isOf('worker', fault)) sick.add(fault.target % this.#workers);
      else if (isOf('gateway', fault)) {
        if (gateway === `g${fault.target % this.#gateways}`) return false;
      } else return false;
    }
    return sick.size <= 1 && this.#workers >= 2;
  }

  #between(fromMs: number, toMs: number): Fault[] {
    return this.#faults.filter(
      ({ atMs, durationMs }) => atMs <= toMs && atMs + durationMs + RECOVERY_MS >= fromMs,
    );
  }
}
