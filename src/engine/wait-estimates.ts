// How long waiting sequences will wait for their first token: the queue played forward (`wait-forecast.ts`) with what was
// measured lately, by the cost model, the length of answers and how true earlier estimates were. Knows no clock.

import type { Scheduler } from './scheduler/scheduler.ts';
import type { Sequence } from './scheduler/sequence.ts';
import { attendedTokens, type StepPlan } from './scheduler/step-plan.ts';
import { type ForecastSequence, type ForecastStep, forecastWaits } from './wait-forecast.ts';

/** Most sequences whose waits are estimated. */
const MOST_PLACES = 512;

/** Weight of a step after n further ones: MEMORY^n; of an answer that has ended, likewise. */
const STEP_MEMORY = 0.99;
const ANSWER_MEMORY = 0.95;
const LATENESS_MEMORY = 0.95;
/** Waits are at times much longer than expected, because others overtake, and seldom much shorter. */
const CAUTION = 1.08;
/** Shorter waits say little. */
const SHORTEST_MS = 1000;
/** Waits as expected that are assumed to have come before. */
const TRUST = 3;
/** Tokens, where none was measured. */
const USUAL_ANSWER = 256;

export interface EstimatedWait {
  readonly id: string;
  /** 1 for the next. */
  readonly position: number;
  /** Until its first token. */
  readonly waitMs: number;
}

/** A sum of what came lately over another. */
class Rate {
  readonly #memory: number;
  #amount = 0;
  #over: number;

  constructor(memory: number, over = 0) {
    this.#memory = memory;
    this.#over = over;
  }

  add(amount: number, over: number): void {
    this.#amount = this.#memory * this.#amount + amount;
    this.#over = this.#memory * this.#over + over;
  }

  /** Undefined where nothing was measured. */
  get value(): number | undefined {
    return this.#over > 0 ? this.#amount / this.#over : undefined;
  }
}

export class WaitEstimates {
  /** Between the ends of steps, over what the cost model says of them: drafts and reports take time, too. */
  readonly #slowness = new Rate(STEP_MEMORY);
  /** Answer tokens of a step for each that decodes. */
  readonly #decode = new Rate(STEP_MEMORY);
  /** Tokens of an answer. */
  readonly #answers = new Rate(ANSWER_MEMORY);
  /** What those that wait were expected to, without correction. */
  readonly #expected = new Map<string, { readonly atMs: number; readonly waitMs: number }>();
  /** The logarithm of how much longer waits were than expected: others come and overtake. */
  readonly #lateness = new Rate(LATENESS_MEMORY, TRUST);
  #lastMs: number | undefined;

  /** After a rest the time of the first step counts from its beginning. */
  beginning(nowMs: number): void {
    this.#lastMs ??= nowMs;
  }

  /** A step has ended that gave answers `generated` tokens. */
  stepped({ items, load }: StepPlan, generated: number, { budget }: Scheduler, nowMs: number): void {
    const ms = this.#lastMs === undefined ? undefined : nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    const drafted = items.reduce((sum, { draft }) => sum + draft.tokens.length, 0);
    const decoding = items.filter(({ count, draft }) => count - draft.tokens.length === 1).length;
    if (decoding > 0) this.#decode.add(generated, decoding);
    const predicted = budget.costModel.predictMs({ ...load, tokens: load.tokens - drafted });
    if (ms !== undefined && ms > 0 && predicted > 0) this.#slowness.add(ms, predicted);
  }

  /** Nothing was computed for a while. */
  rested(): void {
    this.#lastMs = undefined;
  }

  /** A sequence has its first token, or waits no more for another reason: then `nowMs` is undefined. */
  begun(id: string, nowMs: number | undefined): void {
    const expected = this.#expected.get(id);
    if (expected === undefined) return;
    this.#expected.delete(id);
    if (nowMs === undefined || expected.waitMs < SHORTEST_MS) return;
    const tookMs = Math.max(SHORTEST_MS, nowMs - expected.atMs);
    this.#lateness.add(Math.log(tookMs / expected.waitMs), 1);
  }

  answered(tokens: number): void {
    if (tokens > 0) this.#answers.add(tokens, 1);
  }

  /** Of the next that wait, in their order; none where nothing was measured. */
  places(scheduler: Scheduler, nowMs: number): EstimatedWait[] {
    const slowness = this.#slowness.value;
    if (slowness === undefined || scheduler.waitingCount === 0) return [];
    const waiting = scheduler.waitingInOrder(MOST_PLACES);
    const expected = (sequence: Sequence) => this.#forecast(sequence);
    const { lanes, blocks } = scheduler.capacity;
    const waits = forecastWaits(scheduler.running.map(expected), waiting.map(expected), {
      lanes,
      blocks,
      answerTokens: this.#decode.value || 1,
      step: stepsOf(scheduler, slowness),
    });
    const correction = CAUTION * Math.exp(this.#lateness.value ?? 0);
    return waiting.map((sequence, at) => {
      const { id } = sequence;
      const waitMs = waits[at] as number;
      if (!this.#expected.has(id)) this.#expected.set(id, { atMs: nowMs, waitMs });
      return { id, position: at + 1, waitMs: correction * waitMs };
    });
  }

  #forecast(sequence: Sequence): ForecastSequence {
    return { sequence, promptLeft: promptLeft(sequence), answerLeft: this.#answerLeft(sequence) };
  }

  /** Answers are as long as they usually are, and never longer than they may be. */
  #answerLeft(sequence: Sequence): number {
    const { length, promptLength, maxTokens, continues } = sequence;
    if (!continues) return 0;
    const given = length - promptLength;
    const mean = this.#answers.value ?? USUAL_ANSWER;
    // One that is longer than usual already goes on for about as long again as half of the usual.
    const left = Math.max(mean - given, mean / 2, 1);
    return Math.min(left, maxTokens - length);
  }
}

function promptLeft({ remaining }: Sequence): number {
  return remaining > 1 ? remaining : 0;
}

/** How steps of a load will be, by the cost model and what the budget leaves to prompts. */
function stepsOf(
  { budget, running }: Scheduler,
  slowness: number,
): (decoding: number, promptTokens: number) => ForecastStep {
  const lengths = running.map(({ length }) => length);
  const context = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, lengths.length);
  return (decoding, promptTokens) => {
    const decodes = { tokens: decoding, sequences: decoding, attended: decoding * context };
    const most = Math.max(budget.prefillTokens(decodes, context), budget.prefillFloor(decodes), 1);
    const tokens = Math.min(promptTokens, most);
    const load = {
      tokens: decoding + tokens,
      sequences: decoding + (tokens > 0 ? 1 : 0),
      attended: decodes.attended + attendedTokens(context / 2, tokens),
    };
    return { ms: slowness * budget.costModel.predictMs(load), tokens };
  };
}
