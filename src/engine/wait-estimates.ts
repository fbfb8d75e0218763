// How long sequences that wait will wait for their first token. Follows from what was measured of late, how fast prompts and
// answers are computed and how long answers are, played forward: sequences that run end, those that wait take their lanes in
// the queue's order, one prompt after the other. Knows no clock.

import { Heap } from './scheduler/heap.ts';
import type { Scheduler } from './scheduler/scheduler.ts';
import type { StepPlan } from './scheduler/step-plan.ts';
import type { Sequence } from './sequence.ts';

/** Most sequences that are told where they are. */
export const MOST_PLACES = 512;

/** Weight of a step after n further ones: MEMORY^n; of an answer that has ended, likewise. */
const STEP_MEMORY = 0.99;
const ANSWER_MEMORY = 0.95;
const LATENESS_MEMORY = 0.9;
/** Shorter waits tell little. */
const SHORTEST_MS = 1000;
/** Waits as expected that are assumed to have come before. */
const TRUST = 3;
/** Steps after which a want of blocks is forgotten. */
const SHORT_STEPS = 200;

/** Tokens, where none was measured. */
const USUAL_ANSWER = 256;

export interface QueuePlace {
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
  /** Prompt tokens a millisecond, over steps that have some. */
  readonly #prefill = new Rate(STEP_MEMORY);
  /** Answer tokens a millisecond of each that decodes. */
  readonly #decode = new Rate(STEP_MEMORY);
  /** Tokens of an answer. */
  readonly #answers = new Rate(ANSWER_MEMORY);
  /** What those that wait were expected to, without correction. */
  readonly #expected = new Map<string, { readonly atMs: number; readonly waitMs: number }>();
  /** The logarithm of how much longer waits were than expected: others come and overtake. */
  readonly #lateness = new Rate(LATENESS_MEMORY, TRUST);
  /** How many ran where blocks were short. */
  readonly #roomFor = new Rate(ANSWER_MEMORY);
  #sinceShort = SHORT_STEPS;
  /** Between the ends of steps: drafts and reports take time, too. */
  #lastMs: number | undefined;

  /** A step has ended that gave answers so many tokens. */
  stepped({ items }: StepPlan, generated: number, { next, running }: Scheduler, nowMs: number): void {
    this.#sinceShort += 1;
    if (next.short) {
      this.#sinceShort = 0;
      this.#roomFor.add(running.length, 1);
    }
    const ms = this.#lastMs === undefined ? undefined : nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    if (ms === undefined || !(ms > 0)) return;
    let prompt = 0;
    let decoding = 0;
    for (const { count, guesses } of items) {
      if (count - guesses.length > 1) prompt += count;
      else decoding += 1;
    }
    if (prompt > 0) this.#prefill.add(prompt, ms);
    if (decoding > 0) this.#decode.add(generated, decoding * ms);
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
  places(scheduler: Scheduler, nowMs: number): QueuePlace[] {
    const rate = this.#prefill.value;
    if (rate === undefined || rate === 0 || scheduler.waitingCount === 0) return [];
    const waiting = scheduler.waitingInOrder(MOST_PLACES);
    const prompt = (sequence: Sequence) => ({ sequence, left: promptLeft(sequence) / rate });
    const running = scheduler.running.map(prompt).filter(({ left }) => left > 0);
    const tokenMs = 1 / (this.#decode.value || 1);
    const waits = playForward(running, waiting.map(prompt), this.#lanes(scheduler, tokenMs), (sequence) =>
      this.#answerMs(sequence, tokenMs),
    );
    const correction = Math.exp(this.#lateness.value ?? 0);
    return waiting.map((sequence, at) => {
      const { id } = sequence;
      const waitMs = waits.get(sequence) as number;
      if (!this.#expected.has(id)) this.#expected.set(id, { atMs: nowMs, waitMs });
      return { id, position: at + 1, waitMs: correction * waitMs };
    });
  }

  /** When each lane is free, but those of prompts that are being computed; those that nobody has are free now. */
  #lanes(scheduler: Scheduler, tokenMs: number): number[] {
    const decoding = scheduler.running.filter((sequence) => promptLeft(sequence) === 0);
    const lanes = decoding.map((sequence) => this.#answerMs(sequence, tokenMs));
    for (let free = this.#freeLanes(scheduler); free > 0; free--) lanes.push(0);
    return lanes;
  }

  #freeLanes(scheduler: Scheduler): number {
    const free = scheduler.freeLanes(MOST_PLACES);
    if (this.#sinceShort >= SHORT_STEPS) return free;
    return Math.min(free, Math.round((this.#roomFor.value ?? 0) - scheduler.running.length));
  }

  /** What is left of its answer takes as long as answers usually do, and never longer than it may be. */
  #answerMs(sequence: Sequence, tokenMs: number): number {
    const { length, promptLength, maxTokens, pooled } = sequence;
    if (pooled !== undefined) return 0;
    const given = length - promptLength;
    const mean = this.#answers.value ?? USUAL_ANSWER;
    // One that is longer than usual already goes on for about as long again as half of the usual.
    const left = Math.max(mean - given, mean / 2, 1);
    return Math.min(left, maxTokens - length) * tokenMs;
  }
}

function promptLeft({ remaining }: Sequence): number {
  return remaining > 1 ? remaining : 0;
}

interface Prompt {
  readonly sequence: Sequence;
  /** Milliseconds, if it were computed alone. */
  left: number;
}

/** What the most urgent prompt gets of a step where a shorter one is there, which gets the rest; see `chunk.ts`. */
const LEADING_SHARE = 0.75;

/** When each of `waiting` has its prompt computed. `lanes`: when those are free that no prompt of `running` has. */
function playForward(
  running: readonly Prompt[],
  waiting: readonly Prompt[],
  lanes: readonly number[],
  answerMs: (sequence: Sequence) => number,
): Map<Sequence, number> {
  const waits = new Map<Sequence, number>();
  const free = new Heap<{ readonly atMs: number }>((a, b) => a.atMs - b.atMs);
  for (const atMs of lanes) free.push({ atMs });
  const shortest = new Heap<Prompt>((a, b) => a.left - b.left);
  for (const prompt of running) shortest.push(prompt);
  const order = [...running, ...waiting];
  let [admitted, first, nowMs] = [running.length, 0, 0];
  const end = (prompt: Prompt) => {
    prompt.left = 0;
    shortest.remove(prompt);
    waits.set(prompt.sequence, nowMs);
    free.push({ atMs: nowMs + answerMs(prompt.sequence) });
  };
  while (first < order.length) {
    for (let lane = free.peek(); lane !== undefined && admitted < order.length; lane = free.peek()) {
      if (lane.atMs > nowMs) break;
      free.remove(lane);
      shortest.push(order[admitted++] as Prompt);
    }
    const leader = order[first] as Prompt;
    if (first < admitted && leader.left <= 0) {
      if (!waits.has(leader.sequence)) end(leader);
      first++;
      continue;
    }
    const untilMs = admitted < order.length ? (free.peek()?.atMs ?? nowMs) : Number.POSITIVE_INFINITY;
    if (first === admitted) {
      // Nobody has a prompt to compute until a lane is free.
      nowMs = Math.max(nowMs, untilMs);
      if (free.size === 0) free.push({ atMs: nowMs });
      continue;
    }
    shortest.remove(leader);
    const other = shortest.peek();
    const shorter = other !== undefined && other.left < leader.left ? other : undefined;
    const share = shorter === undefined ? 1 : LEADING_SHARE;
    const stepMs = Math.min(
      leader.left / share,
      shorter === undefined ? Number.POSITIVE_INFINITY : shorter.left / (1 - share),
      untilMs > nowMs ? untilMs - nowMs : Number.POSITIVE_INFINITY,
    );
    nowMs += stepMs;
    leader.left -= share * stepMs;
    if (shorter !== undefined) {
      shorter.left -= (1 - share) * stepMs;
      if (shorter.left <= TINY_MS) end(shorter);
    }
    if (leader.left <= TINY_MS) leader.left = 0;
  }
  return waits;
}

/** What rounding leaves of a prompt. */
const TINY_MS = 1e-6;
