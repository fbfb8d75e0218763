// The workers that have one model, with their pace in columns, so that all are compared in microseconds and only the best few
// with care.

import type { Priority } from '../../engine/scheduler/sequence.ts';
import { type Pace, paceOf } from './expected-finish.ts';
import type { WorkerStatus } from './worker-status.ts';

/** How many are compared with care: the best by estimate, and the highest ranked of those about as good. */
const BEST_BY_TIME = 12;
const BEST_BY_RANK = 4;
/** Within this share of the least time workers count as equally good. */
export const TIE_SHARE = 0.15;

interface RoughRequest {
  readonly priority: Priority;
  readonly promptTokens: number;
  readonly expectedTokens: number;
  readonly conversationHash: number;
}

export interface Candidate {
  readonly name: string;
  readonly worker: number;
  readonly hash: number;
  readonly status: WorkerStatus;
  draining: boolean;
}

const priorities = [0, 1, 2] as const;

export class Candidates {
  readonly #all: Candidate[] = [];
  readonly #places = new Map<number, number>();
  // In the order of #all; steps and tokens include what they cost other sequences.
  #aheadMs = priorities.map(() => new Float64Array(16));
  #stepMs = priorities.map(() => new Float64Array(16));
  #tokenMs = priorities.map(() => new Float64Array(16));
  #receivedMs = new Float64Array(16);
  #roughMs = new Float64Array(16);
  readonly #leastMs = new Float64Array(BEST_BY_TIME);
  readonly #least = new Int32Array(BEST_BY_TIME);
  readonly #highestRank = new Float64Array(BEST_BY_RANK);
  readonly #highest = new Int32Array(BEST_BY_RANK);

  get all(): readonly Candidate[] {
    return this.#all;
  }

  get(worker: number): Candidate | undefined {
    const place = this.#places.get(worker);
    return place === undefined ? undefined : this.#all[place];
  }

  add(candidate: Candidate): void {
    const place = this.#all.length;
    if (place === this.#receivedMs.length) this.#grow();
    this.#all.push(candidate);
    this.#places.set(candidate.worker, place);
    this.refresh(candidate.worker);
  }

  /** The last one takes its index. */
  remove(worker: number): void {
    const place = this.#places.get(worker);
    if (place === undefined) return;
    const last = this.#all.pop() as Candidate;
    this.#places.delete(worker);
    if (last.worker === worker) return;
    this.#all[place] = last;
    this.#places.set(last.worker, place);
    this.refresh(last.worker);
  }

  refresh(worker: number): void {
    const place = this.#places.get(worker);
    if (place === undefined) return;
    const { status, draining } = this.#all[place] as Candidate;
    for (const priority of priorities) {
      const pace: Pace = paceOf(status, priority);
      column(this.#aheadMs, priority)[place] = draining ? Number.POSITIVE_INFINITY : pace.aheadMs;
      column(this.#stepMs, priority)[place] = pace.stepMs + pace.othersStepMs;
      column(this.#tokenMs, priority)[place] = pace.tokenMs + pace.othersTokenMs;
    }
    this.#receivedMs[place] = status.receivedMs;
  }

  /**
   * The few worth comparing with care. `cachedTokens` is by worker number; `excluded` workers and those last heard
   * before `heardAfterMs` are left out.
   */
  best(
    request: RoughRequest,
    cachedTokens: Int32Array,
    excluded: ReadonlySet<string> | undefined,
    heardAfterMs: number,
    nowMs: number,
  ): Candidate[] {
    const leastMs = this.#estimate(request, cachedTokens, excluded, heardAfterMs, nowMs);
    const found = this.#leastBy(this.#roughMs, this.#all.length);
    if (Number.isFinite(leastMs)) {
      const tiedMs = leastMs * (1 + TIE_SHARE);
      for (const place of this.#highestRanked(request.conversationHash, tiedMs)) {
        if (!found.includes(place)) found.push(place);
      }
    }
    return found.map((place) => this.#all[place] as Candidate);
  }

  /** Fills the column of estimated times, infinite for workers that cannot take it, and returns the least. */
  #estimate(
    { priority, promptTokens, expectedTokens }: RoughRequest,
    cachedTokens: Int32Array,
    excluded: ReadonlySet<string> | undefined,
    heardAfterMs: number,
    nowMs: number,
  ): number {
    const aheadMs = column(this.#aheadMs, priority);
    const stepMs = column(this.#stepMs, priority);
    const tokenMs = column(this.#tokenMs, priority);
    const decodes = expectedTokens - 1;
    let leastMs = Number.POSITIVE_INFINITY;
    for (let place = 0; place < this.#all.length; place++) {
      const { worker, name } = this.#all[place] as Candidate;
      const receivedMs = this.#receivedMs[place] as number;
      const waitMs = Math.max(0, (aheadMs[place] as number) - Math.max(0, nowMs - receivedMs));
      const uncached = promptTokens - (cachedTokens[worker] ?? 0);
      let ms = waitMs + uncached * (tokenMs[place] as number) + decodes * (stepMs[place] as number);
      if (receivedMs < heardAfterMs || (excluded?.has(name) ?? false)) ms = Number.POSITIVE_INFINITY;
      this.#roughMs[place] = ms;
      if (ms < leastMs) leastMs = ms;
    }
    return leastMs;
  }

  /** Indices of the least finite values, in order. */
  #leastBy(values: Float64Array, count: number): number[] {
    let kept = 0;
    for (let place = 0; place < count; place++) {
      const value = values[place] as number;
      if (value === Number.POSITIVE_INFINITY) continue;
      if (kept === BEST_BY_TIME && value >= (this.#leastMs[kept - 1] as number)) continue;
      let at = kept < BEST_BY_TIME ? kept++ : kept - 1;
      for (; at > 0 && (this.#leastMs[at - 1] as number) > value; at--) {
        this.#leastMs[at] = this.#leastMs[at - 1] as number;
        this.#least[at] = this.#least[at - 1] as number;
      }
      this.#leastMs[at] = value;
      this.#least[at] = place;
    }
    return Array.from(this.#least.subarray(0, kept));
  }

  /**
   * Rendezvous hashing: every gateway ranks workers alike for a conversation, and a worker that joins or leaves moves
   * only its own share.
   */
  #highestRanked(conversationHash: number, withinMs: number): number[] {
    let kept = 0;
    for (let place = 0; place < this.#all.length; place++) {
      if ((this.#roughMs[place] as number) > withinMs) continue;
      const value = rank(conversationHash, (this.#all[place] as Candidate).hash);
      if (kept === BEST_BY_RANK && value <= (this.#highestRank[kept - 1] as number)) continue;
      let at = kept < BEST_BY_RANK ? kept++ : kept - 1;
      for (; at > 0 && (this.#highestRank[at - 1] as number) < value; at--) {
        this.#highestRank[at] = this.#highestRank[at - 1] as number;
        this.#highest[at] = this.#highest[at - 1] as number;
      }
      this.#highestRank[at] = value;
      this.#highest[at] = place;
    }
    return Array.from(this.#highest.subarray(0, kept));
  }

  #grow(): void {
    const twice = (old: Float64Array) => {
      const grown = new Float64Array(2 * old.length);
      grown.set(old);
      return grown;
    };
    this.#aheadMs = this.#aheadMs.map(twice);
    this.#stepMs = this.#stepMs.map(twice);
    this.#tokenMs = this.#tokenMs.map(twice);
    this.#receivedMs = twice(this.#receivedMs);
    this.#roughMs = twice(this.#roughMs);
  }
}

function column(columns: readonly Float64Array[], priority: Priority): Float64Array {
  return columns[priority] as Float64Array;
}

export function hashText(text: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return scatter(hash);
}

export function rank(conversationHash: number, workerHash: number): number {
  return scatter(conversationHash ^ Math.imul(workerHash, 0x9e3779b1)) >>> 0;
}

function scatter(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
  return bits ^ (bits >>> 16);
}
