// How many steps a model makes of late, and how large they are: for people who look on, not for routing.

import type { StepSummary } from '../../engine/step-report.ts';
import type { StepRates } from '../messages.ts';

/** Two spans of this length count: the one that is under way, and the one before. */
const SPAN_MS = 1000;

interface Span {
  readonly startMs: number;
  steps: number;
  tokens: number;
  sequences: number;
}

export class RecentSteps {
  #span: Span;
  #before: Span;

  /** The clock is any that does not jump. */
  constructor(nowMs: number) {
    this.#span = emptySpan(nowMs);
    this.#before = this.#span;
  }

  observe({ tokens, sequences }: Pick<StepSummary, 'tokens' | 'sequences'>, nowMs: number): void {
    this.#advance(nowMs);
    this.#span.steps += 1;
    this.#span.tokens += tokens;
    this.#span.sequences += sequences;
  }

  rates(nowMs: number): StepRates {
    this.#advance(nowMs);
    const spans = this.#before === this.#span ? [this.#span] : [this.#before, this.#span];
    const sum = (of: (span: Span) => number) => spans.reduce((all, span) => all + of(span), 0);
    const seconds = Math.max(SPAN_MS, nowMs - this.#before.startMs) / 1000;
    const steps = sum((span) => span.steps);
    const perStep = (total: number) => (steps === 0 ? 0 : tenths(total / steps));
    return {
      stepsPerSecond: tenths(steps / seconds),
      tokensPerStep: perStep(sum(({ tokens }) => tokens)),
      sequencesPerStep: perStep(sum(({ sequences }) => sequences)),
    };
  }

  #advance(nowMs: number): void {
    const ageMs = nowMs - this.#span.startMs;
    if (ageMs < SPAN_MS) return;
    // After a pause the span before is an empty one.
    this.#before = ageMs < 2 * SPAN_MS ? this.#span : emptySpan(nowMs - SPAN_MS);
    this.#span = emptySpan(nowMs);
  }
}

function emptySpan(startMs: number): Span {
  return { startMs, steps: 0, tokens: 0, sequences: 0 };
}

/** So that messages stay short. */
function tenths(value: number): number {
  return Math.round(10 * value) / 10;
}
