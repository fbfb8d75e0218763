// Plays the waiting queue forward: when will each waiting sequence have its prompt computed? A fluid model of the steps to
// come: between two events, the end of a prompt or of an answer, every step is alike. Knows no clock and no scheduler.

import { blocksFor } from './cache/block-tables.ts';
import { Heap } from './scheduler/heap.ts';
import type { Sequence } from './scheduler/sequence.ts';

export interface ForecastSequence {
  readonly sequence: Sequence;
  /** Tokens left to compute before the first token is sampled; 0 for one that decodes. */
  readonly promptLeft: number;
  /** Tokens expected from then on. */
  readonly answerLeft: number;
}

export interface ForecastStep {
  readonly ms: number;
  /** Of prompts. */
  readonly tokens: number;
}

interface ForecastLimits {
  /** Sequences that run at once. */
  readonly lanes: number;
  /** That running sequences may hold. */
  readonly blocks: number;
  /** Tokens that a step gives each answer. */
  readonly answerTokens: number;
  /** The time of a step, by its answers and its prompt tokens. */
  readonly step: (decoding: number, promptTokens: number) => ForecastStep;
}

/** What the most urgent prompt gets of a step where a shorter one is there, which gets the rest; see `chunk.ts`. */
const LEADING_SHARE = 0.75;
/** Shorter prompts that share a step with the leading one; for more of them nothing is left: see `chunk.ts`. */
const SHORTER_PROMPTS = 3;
/** What rounding leaves of a prompt, in tokens. */
const TINY = 1e-6;

interface Prompt {
  readonly each: ForecastSequence;
  left: number;
}

/** Milliseconds until each of `waiting` has its prompt computed, in their order. */
export function forecastWaits(
  running: readonly ForecastSequence[],
  waiting: readonly ForecastSequence[],
  limits: ForecastLimits,
): number[] {
  const play = new Forecast(limits);
  for (const each of running) play.start(each);
  return play.run(waiting);
}

class Forecast {
  readonly #limits: ForecastLimits;
  /** In the order of their urgency; those that have ended are taken out. */
  readonly #prompts = new Set<Prompt>();
  readonly #shortest = new Heap<Prompt>((a, b) => a.left - b.left);
  /** By the count of answer tokens at which they end. */
  readonly #answers = new Heap<{ readonly each: ForecastSequence; readonly end: number }>(
    (a, b) => a.end - b.end,
  );
  readonly #waits = new Map<ForecastSequence, number>();
  #promptTokens = 0;
  #usedBlocks = 0;
  #nowMs = 0;
  /** Answer tokens that a sequence has had which decoded all the time. */
  #count = 0;

  constructor(limits: ForecastLimits) {
    this.#limits = limits;
  }

  run(waiting: readonly ForecastSequence[]): number[] {
    for (let next = 0; next < waiting.length || this.#prompts.size > 0; ) {
      for (; next < waiting.length && this.#hasPlace(waiting[next] as ForecastSequence); next++) {
        this.start(waiting[next] as ForecastSequence);
      }
      this.#advance();
    }
    return waiting.map((each) => this.#waits.get(each) as number);
  }

  start(each: ForecastSequence): void {
    this.#usedBlocks += expectedBlocks(each);
    if (each.promptLeft <= 0) {
      this.#decode(each);
      return;
    }
    const prompt = { each, left: each.promptLeft };
    this.#promptTokens += prompt.left;
    this.#prompts.add(prompt);
    this.#shortest.push(prompt);
  }

  #hasPlace(each: ForecastSequence): boolean {
    const running = this.#prompts.size + this.#answers.size;
    if (running === 0) return true;
    if (this.#shorterPrompts() >= SHORTER_PROMPTS) return false;
    return running < this.#limits.lanes && this.#usedBlocks + expectedBlocks(each) <= this.#limits.blocks;
  }

  #shorterPrompts(): number {
    const [leader] = this.#prompts;
    let count = 0;
    for (const { left } of this.#prompts) if (left < (leader as Prompt).left) count += 1;
    return count;
  }

  #decode(each: ForecastSequence): void {
    this.#waits.set(each, this.#nowMs);
    this.#answers.push({ each, end: this.#count + each.answerLeft });
  }

  /** To the next end of a prompt or of an answer. */
  #advance(): void {
    const { answerTokens } = this.#limits;
    const { ms, tokens } = this.#limits.step(this.#answers.size, this.#promptTokens);
    const [leader] = this.#prompts;
    const shorter = this.#shorterThan(leader);
    const share = shorter === undefined ? 1 : LEADING_SHARE;
    const first = this.#answers.peek();
    const steps = Math.min(
      first === undefined ? Number.POSITIVE_INFINITY : Math.max(0, first.end - this.#count) / answerTokens,
      leader === undefined ? Number.POSITIVE_INFINITY : leader.left / (share * tokens),
      shorter === undefined ? Number.POSITIVE_INFINITY : shorter.left / ((1 - share) * tokens),
    );
    this.#nowMs += steps * ms;
    this.#count += steps * answerTokens;
    if (leader !== undefined) this.#compute(leader, share * tokens * steps);
    if (shorter !== undefined) this.#compute(shorter, (1 - share) * tokens * steps);
    for (let one = this.#answers.peek(); one !== undefined && one.end <= this.#count + TINY; ) {
      this.#answers.remove(one);
      this.#usedBlocks -= expectedBlocks(one.each);
      one = this.#answers.peek();
    }
  }

  #shorterThan(leader: Prompt | undefined): Prompt | undefined {
    if (leader === undefined) return undefined;
    const shortest = this.#shortest.peek();
    return shortest !== undefined && shortest.left < leader.left ? shortest : undefined;
  }

  #compute(prompt: Prompt, tokens: number): void {
    prompt.left -= tokens;
    this.#promptTokens -= tokens;
    if (prompt.left > TINY) {
      this.#shortest.update(prompt);
      return;
    }
    this.#promptTokens -= prompt.left;
    this.#prompts.delete(prompt);
    this.#shortest.remove(prompt);
    this.#decode(prompt.each);
  }
}

/** At the end of its answer. */
function expectedBlocks({ sequence, answerLeft }: ForecastSequence): number {
  return blocksFor(sequence.length + answerLeft);
}
