// The time of a simulation: what happens next, in one order. After each event all promises it settled are followed to their
// ends before the next one begins, so that a run depends on its seed alone.

import { Heap } from '../../src/engine/scheduler/heap.ts';

/** What a moment belongs to: it may be stopped for a while, or gone. */
export interface Owner {
  readonly state: 'running' | 'stalled' | 'dead';
  /** Keeps what happens to it while it is stalled. */
  hold(moment: Moment): void;
}

export interface Moment {
  atMs: number;
  order: number;
  readonly owner: Owner | undefined;
  readonly happen: () => void;
  isCancelled: boolean;
}

const nextTurn = globalThis.setImmediate;
const EVENTS_A_TURN = 256;

/**
 * Runs what promises and `process.nextTick` have ready, to the end, as Node does between two callbacks. A turn of the event loop
 * does so as well, and takes several times as long.
 */
const followPromises = (process as unknown as { _tickCallback: () => void })._tickCallback;

export class VirtualTime {
  nowMs = 0;
  events = 0;
  /** Whose code runs now: promises that an event settles run before the next one. */
  current: Owner | undefined;
  readonly #moments = new Heap<Moment>((a, b) => a.atMs - b.atMs || a.order - b.order);
  readonly #onFailure: (error: unknown) => void;
  #planned = 0;
  #hash = 0x811c9dc5;

  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure;
  }

  at(atMs: number, owner: Owner | undefined, happen: () => void): Moment {
    const moment = {
      atMs: Math.max(atMs, this.nowMs),
      order: this.#planned++,
      owner,
      happen,
      isCancelled: false,
    };
    this.#moments.push(moment);
    return moment;
  }

  after(durationMs: number, owner: Owner | undefined, happen: () => void): Moment {
    return this.at(this.nowMs + durationMs, owner, happen);
  }

  /** Happens now, after what else happens now. */
  again(moment: Moment): void {
    moment.atMs = this.nowMs;
    moment.order = this.#planned++;
    this.#moments.push(moment);
  }

  cancel(moment: Moment): void {
    moment.isCancelled = true;
    this.#moments.remove(moment);
  }

  /** What was seen, in its order: equal runs have equal hashes. */
  trace(value: number): void {
    this.#hash = Math.imul(this.#hash ^ value, 0x01000193);
  }

  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, '0');
  }

  runUntil(endMs: number, isOver: () => boolean = () => false): Promise<void> {
    return new Promise((resolve) => {
      const turn = () => {
        for (let i = 0; i < EVENTS_A_TURN; i++) {
          if (isOver() || !this.#next(endMs)) {
            this.current = undefined;
            if (!isOver()) this.nowMs = Math.max(this.nowMs, endMs);
            resolve();
            return;
          }
        }
        nextTurn(turn);
      };
      nextTurn(turn);
    });
  }

  #next(endMs: number): boolean {
    const next = this.#moments.peek();
    if (next === undefined || next.atMs > endMs) return false;
    this.#moments.remove(next);
    this.nowMs = next.atMs;
    const { owner } = next;
    if (owner?.state === 'dead') return true;
    if (owner?.state === 'stalled') {
      owner.hold(next);
      return true;
    }
    this.events++;
    this.current = owner;
    try {
      next.happen();
    } catch (error) {
      this.#onFailure(error);
    }
    followPromises();
    return true;
  }
}
