// The sequences of one account in one tier, and the work it has had: what was computed for it, forgotten over a minute, and
// what is promised to those of it that run. Work is milliseconds of compute as the cost model knows them, or tokens while it
// knows none.

import { Heap } from './heap.ts';
import { AGING_PER_SECOND, compareKeys, compareOwnKeys, type Priority, type Sequence } from './sequence.ts';

/** After this time work counts for 1/e of what it was. */
const FORGOTTEN_MS = 60_000;
/**
 * Who goes first because of less work is at most a minute younger, as a difference of keys: an account without a turn for as long has
 * next to no work left that counts.
 */
export const LONGEST_OVERTAKING = (AGING_PER_SECOND * FORGOTTEN_MS) / 1000;
/** Nothing worth knowing is left of work after this many times as long. */
const FORGOTTEN_WHOLLY = 8;
/** Far from where numbers end, and from where they grow coarse. */
const LARGEST_EXPONENT = 100;

export interface Flow {
  readonly priority: Priority;
  readonly account: string;
  readonly waiting: Heap<Sequence>;
  running: number;
  /** Work that was computed, in the ledger's scale. */
  served: number;
  /** Work outstanding of those that run, in the ledger's scale. */
  promised: number;
  /** The key of a sequence that had come when the flow had its last turn. */
  turn: number;
}

/** What decides whose turn it is. */
export type Queued = Omit<Flow, 'waiting'> & { readonly waiting: Pick<Heap<Sequence>, 'peek'> };

export function newFlow(priority: Priority, account: string): Flow {
  const waiting = new Heap<Sequence>(compareOwnKeys);
  return { priority, account, waiting, running: 0, served: 0, promised: 0, turn: Number.NEGATIVE_INFINITY };
}

/** Urgency of what waits: of its first sequence, but a flow that had a turn begins to wait anew. */
export function urgencyOf({ waiting, turn }: Queued): number {
  return Math.max((waiting.peek() as Sequence).key, turn);
}

export function turnAt({ priority }: Queued, nowMs: number): number {
  return priority + (AGING_PER_SECOND * nowMs) / 1000;
}

/** The most urgent first. Both have something waiting. */
export function compareUrgency(a: Queued, b: Queued): number {
  return (
    urgencyOf(a) - urgencyOf(b) || compareKeys(a.waiting.peek() as Sequence, b.waiting.peek() as Sequence)
  );
}

/** Least work first. Both have something waiting. */
export function compareWork(a: Queued, b: Queued): number {
  return a.served + a.promised - (b.served + b.promised) || a.running - b.running || compareUrgency(a, b);
}

export function compareServed(a: Flow, b: Flow): number {
  return a.served - b.served;
}

/**
 * Forgets without touching anything: all work fades alike, so that new work is written down larger instead, by a scale that
 * grows with time. The order between flows then changes only where one is charged.
 */
export class ForgettingScale {
  #originMs: number | undefined;
  #nowMs = 0;
  #scale = 1;

  get nowMs(): number {
    return this.#nowMs;
  }

  /** What a unit of work is written down as now. */
  get scale(): number {
    return this.#scale;
  }

  /** Time never goes back. Gives what everything written down must be multiplied with, where numbers became too large. */
  advance(nowMs: number): number | undefined {
    this.#originMs ??= nowMs;
    this.#nowMs = Math.max(nowMs, this.#originMs, this.#nowMs);
    const exponent = (this.#nowMs - this.#originMs) / FORGOTTEN_MS;
    this.#scale = Math.exp(Math.min(exponent, LARGEST_EXPONENT));
    if (exponent < LARGEST_EXPONENT) return undefined;
    this.#originMs = this.#nowMs;
    this.#scale = 1;
    return Math.exp(-exponent);
  }

  /** Whether work that ended then is forgotten by now. */
  hasForgotten(sinceMs: number): boolean {
    return this.#nowMs - sinceMs > FORGOTTEN_WHOLLY * FORGOTTEN_MS;
  }
}
