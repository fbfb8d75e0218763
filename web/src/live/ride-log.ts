// Who rode when: the last steps of an engine as stretches of time in seats, and each step's size.

import type { LiveStep, Rider } from '../../../src/server/live/live-event.ts';

export const LOG_MS = 60_000;

/** Stretches of the same kind this near to each other are one: no screen tells them apart. */
const JOIN_MS = 4;

export interface Stretch {
  readonly seat: number;
  readonly kind: 'prompt' | 'decode';
  readonly fromMs: number;
  toMs: number;
}

/** Somebody's whole ride: from getting on to getting off. */
export interface Ride {
  readonly seat: number;
  readonly requestId: string;
  readonly fromMs: number;
  /** Absent while it goes on. */
  toMs?: number;
}

export interface StepBar {
  readonly atMs: number;
  readonly ms: number;
  readonly promptTokens: number;
  readonly decodeTokens: number;
}

export class RideLog {
  stretches: Stretch[] = [];
  rides: Ride[] = [];
  steps: StepBar[] = [];
  /** The last stretch of each seat. */
  readonly #open = new Map<number, Stretch>();
  readonly #riding = new Map<number, Ride>();
  /** Seats whose riders have drawn a token: their prompts are done. */
  readonly #decoding = new Set<number>();

  /** Between two calls a seat means one rider: who sat there before, or who sits there now. */
  add(steps: readonly LiveStep[], riders: readonly Rider[], nowMs: number): void {
    for (const step of steps) this.#addStep(step);
    const present = new Map(riders.map((rider) => [rider.seat, rider.requestId]));
    for (const [seat, ride] of this.#riding) {
      if (present.get(seat) === ride.requestId) continue;
      ride.toMs = this.#open.get(seat)?.toMs ?? nowMs;
      this.#riding.delete(seat);
    }
    for (const [seat, requestId] of present) {
      if (this.#riding.has(seat)) continue;
      const ride: Ride = { seat, requestId, fromMs: firstRideOf(steps, seat) ?? nowMs };
      this.#riding.set(seat, ride);
      this.rides.push(ride);
    }
    for (const seat of this.#decoding) if (!present.has(seat)) this.#decoding.delete(seat);
    this.#forgetBefore(nowMs - LOG_MS);
  }

  /** All get off: what comes next is another engine. */
  clear(nowMs: number): void {
    for (const ride of this.#riding.values()) ride.toMs = nowMs;
    this.#riding.clear();
    this.#open.clear();
    this.#decoding.clear();
  }

  #addStep({ atMs, ms, rides }: LiveStep): void {
    let promptTokens = 0;
    let decodeTokens = 0;
    for (const [seat, computed, drawn] of rides) {
      // The chunk that ends a prompt draws the first token.
      const kind = drawn === 0 || !this.#decoding.has(seat) ? 'prompt' : 'decode';
      if (drawn > 0) this.#decoding.add(seat);
      if (kind === 'prompt') promptTokens += computed;
      else decodeTokens += computed;
      this.#stretch(seat, kind, atMs, atMs + ms);
    }
    this.steps.push({ atMs, ms, promptTokens, decodeTokens });
  }

  #stretch(seat: number, kind: Stretch['kind'], fromMs: number, toMs: number): void {
    const last = this.#open.get(seat);
    if (last?.kind === kind && fromMs - last.toMs < JOIN_MS) {
      last.toMs = toMs;
      return;
    }
    const stretch: Stretch = { seat, kind, fromMs, toMs };
    this.#open.set(seat, stretch);
    this.stretches.push(stretch);
  }

  #forgetBefore(ms: number): void {
    const stale = (from: number) => from < ms - LOG_MS / 4;
    // Only now and then: taking from the front of a list moves all of it.
    if (this.steps[0] === undefined || !stale(this.steps[0].atMs)) return;
    this.steps = this.steps.filter(({ atMs }) => atMs >= ms);
    this.stretches = this.stretches.filter(({ toMs }) => toMs >= ms);
    this.rides = this.rides.filter(({ toMs }) => toMs === undefined || toMs >= ms);
  }
}

function firstRideOf(steps: readonly LiveStep[], seat: number): number | undefined {
  return steps.find(({ rides }) => rides.some(([one]) => one === seat))?.atMs;
}
