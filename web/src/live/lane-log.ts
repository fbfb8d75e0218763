// The last steps of an engine: what each lane computed when, which sequence was in it, and how large each step was.

import type { RunningSequence, StepTrace } from '../../../src/engine/live/snapshot.ts';

export const LOG_MS = 60_000;

/** Spans of the same kind this near to each other are one: no screen tells them apart. */
const JOIN_MS = 4;

interface Span {
  readonly lane: number;
  readonly kind: 'prompt' | 'decode';
  readonly fromMs: number;
  toMs: number;
}

/** A request's time in a lane. */
export interface Occupancy {
  readonly lane: number;
  readonly requestId: string;
  readonly fromMs: number;
  /** Absent while it goes on. */
  toMs?: number;
}

interface StepBar {
  readonly atMs: number;
  readonly ms: number;
  readonly promptTokens: number;
  readonly decodeTokens: number;
}

export class LaneLog {
  spans: Span[] = [];
  occupancies: Occupancy[] = [];
  steps: StepBar[] = [];
  readonly #lastSpans = new Map<number, Span>();
  readonly #current = new Map<number, Occupancy>();
  /** Lanes whose sequences have sampled a token: their prompts are done. */
  readonly #decoding = new Set<number>();

  /** Between two calls a lane is that of one sequence: the one before, or the one in `running`. */
  add(steps: readonly StepTrace[], running: readonly RunningSequence[], nowMs: number): void {
    for (const step of steps) this.#addStep(step);
    const present = new Map(running.map(({ lane, requestId }) => [lane, requestId]));
    for (const [lane, occupancy] of this.#current) {
      if (present.get(lane) === occupancy.requestId) continue;
      occupancy.toMs = this.#lastSpans.get(lane)?.toMs ?? nowMs;
      this.#current.delete(lane);
    }
    for (const [lane, requestId] of present) {
      if (this.#current.has(lane)) continue;
      const occupancy: Occupancy = { lane, requestId, fromMs: firstStepOf(steps, lane) ?? nowMs };
      this.#current.set(lane, occupancy);
      this.occupancies.push(occupancy);
    }
    for (const lane of this.#decoding) if (!present.has(lane)) this.#decoding.delete(lane);
    this.#forgetBefore(nowMs - LOG_MS);
  }

  /** Every sequence has left: another engine comes next. */
  clear(nowMs: number): void {
    for (const occupancy of this.#current.values()) occupancy.toMs = nowMs;
    this.#current.clear();
    this.#lastSpans.clear();
    this.#decoding.clear();
  }

  #addStep({ atMs, ms, sequences }: StepTrace): void {
    let promptTokens = 0;
    let decodeTokens = 0;
    for (const [lane, computed, sampled] of sequences) {
      // The chunk that ends a prompt samples the first token.
      const kind = sampled === 0 || !this.#decoding.has(lane) ? 'prompt' : 'decode';
      if (sampled > 0) this.#decoding.add(lane);
      if (kind === 'prompt') promptTokens += computed;
      else decodeTokens += computed;
      this.#extend(lane, kind, atMs, atMs + ms);
    }
    this.steps.push({ atMs, ms, promptTokens, decodeTokens });
  }

  #extend(lane: number, kind: Span['kind'], fromMs: number, toMs: number): void {
    const last = this.#lastSpans.get(lane);
    if (last?.kind === kind && fromMs - last.toMs < JOIN_MS) {
      last.toMs = toMs;
      return;
    }
    const span: Span = { lane, kind, fromMs, toMs };
    this.#lastSpans.set(lane, span);
    this.spans.push(span);
  }

  #forgetBefore(ms: number): void {
    const stale = (from: number) => from < ms - LOG_MS / 4;
    // Only now and then: taking from the front of a list moves all of it.
    if (this.steps[0] === undefined || !stale(this.steps[0].atMs)) return;
    this.steps = this.steps.filter(({ atMs }) => atMs >= ms);
    this.spans = this.spans.filter(({ toMs }) => toMs >= ms);
    this.occupancies = this.occupancies.filter(({ toMs }) => toMs === undefined || toMs >= ms);
  }
}

function firstStepOf(steps: readonly StepTrace[], lane: number): number | undefined {
  return steps.find(({ sequences }) => sequences.some(([one]) => one === lane))?.atMs;
}
