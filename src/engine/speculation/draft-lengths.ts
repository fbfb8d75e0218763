// How many draft tokens each sequence gets: as many as make the step worth most, in tokens a millisecond, by their acceptance
// rates and by what steps were measured to take.

import type { StepLoad, StepPlan } from '../scheduler/step-plan.ts';
import type { DraftLimits } from './drafter.ts';
import { RowCosts, type RowTime } from './row-costs.ts';

/**
 * What drafts must promise over none, since costs are measured on machines that are never quite still. Where many decode, each
 * draft token adds little to the step, and what it costs is known less well.
 */
const LEAST_GAIN = { few: 0.02, many: 0.3 } as const;
const FEW_SEQUENCES = 8;
/** What a draft is thought to take before one was measured, in steps. */
const USUAL_DRAFT: DraftShare = { call: 0, round: 0.15 };
/** A round takes at least this part of a draft of one. */
const LEAST_ROUND_SHARE = 0.1;
/** What disturbs a draft only makes it longer: a short one is believed sooner. */
const ROUND_LEARNING = { shorter: 0.5, longer: 0.1 } as const;
/** Steps after which a model that does not pay is tried again. */
const ROUND_AGAIN_AFTER = 64;
const MAX_ROUNDS = 8;
/** A draft goes on at least as long as it is as likely as this. */
const MOST_CERTAINTY = 0.9;

/** What a model took to draft, one round after the other. */
export interface DraftTime {
  readonly rounds: number;
  readonly ms: number;
}

/** Of a draft in steps of one row: what it takes whatever its length, and each round. */
interface DraftShare {
  readonly call: number;
  readonly round: number;
}

export class DraftLengths {
  readonly #rowCosts: RowCosts;
  /** Where it was measured before the first step. */
  readonly #draftShare: DraftShare | undefined;
  /** By the sequences that are drafted for, how many times as long as expected it takes. */
  readonly #draftFactors = new Map<number, number>();
  #sinceRound = 0;

  /** What was measured before the first step: steps of several rows, and drafts of two lengths for one sequence, the shorter one first. */
  constructor(rowTimes?: readonly RowTime[], draftTimes?: readonly DraftTime[]) {
    this.#rowCosts = new RowCosts(rowTimes);
    const [row] = rowTimes ?? [];
    if (draftTimes !== undefined && row !== undefined) this.#draftShare = shareOf(draftTimes, row.ms);
  }

  /** Whether a draft token would pay in this step if it were surely accepted. Now and then a step goes without, to be measured. */
  couldPay({ sequences, tokens }: Pick<StepLoad, 'sequences' | 'tokens'>): boolean {
    const isKnown = this.#rowCosts.isFresh(sequences);
    if (tokens === sequences && !isKnown) return false;
    const stepMs = this.#stepMs(sequences);
    return (sequences + 1) * stepMs(0) > sequences * stepMs(1);
  }

  /**
   * `probabilities`: of each sequence that gets a token, for each of its draft tokens, that it and all before it are accepted; `draftMs`:
   * what it took a model to draft them, whatever their lengths will be.
   */
  of(probabilities: readonly (readonly number[])[], { sequences }: StepLoad, draftMs = 0): number[] {
    const [stepMs, spentMs] = [this.#stepMs(sequences), this.#rowCosts.usually(draftMs) ?? 0];
    return draftLengths(probabilities, sequences, (draftTokens) => spentMs + stepMs(draftTokens));
  }

  /**
   * Whether a step would bring more tokens a millisecond with a model's draft, each of whose tokens is accepted at this rate, than with
   * what is known without it: `probabilities` as for `of`, and as if all `sequences` had such a draft.
   */
  wantsModel(probabilities: readonly number[], sequences: number, acceptanceRate: number): boolean {
    const ofModel = likelihoods(acceptanceRate);
    const ofBoth = Array.from({ length: Math.max(MAX_ROUNDS, probabilities.length) }, (_, depth) =>
      Math.max(probabilities[depth] ?? 0, ofModel[depth] ?? 0),
    );
    const draftMs = this.#draftMs(sequences);
    return this.#worth(ofBoth, sequences, draftMs) > this.#worth(probabilities, sequences, () => 0);
  }

  /** For a step in which no sequence wants a model's draft: whether one is made all the same. */
  isTimeToAsk(): boolean {
    this.#sinceRound += 1;
    return this.#sinceRound >= ROUND_AGAIN_AFTER;
  }

  /** Tokens of a sequence a millisecond, where each gets a draft of the best length. */
  #worth(probabilities: readonly number[], sequences: number, draftMs: (length: number) => number): number {
    let tokens = 1;
    let most = 0;
    for (const [index, probability] of probabilities.entries()) {
      tokens += probability;
      const length = index + 1;
      most = Math.max(most, tokens / (this.#rowCosts.of(sequences * (1 + length)) + draftMs(length)));
    }
    return most;
  }

  /**
   * How far a model should draft for each of `sequences`; `acceptanceRate`: of a token, where it is not known yet how likely the
   * model takes it for. Not at all where drafts of no length would pay; otherwise until one more token would bring less than it costs.
   */
  limits(sequences: number, acceptanceRate: number): DraftLimits {
    this.#sinceRound += 1;
    const draftMs = this.#draftMs(sequences);
    const stepMs = (rounds: number) => this.#rowCosts.of(sequences * (1 + rounds)) + draftMs(rounds);
    const probabilities = likelihoods(acceptanceRate);
    const [best = 0] = draftLengths([probabilities], 1, stepMs);
    if (best === 0 && this.#sinceRound < ROUND_AGAIN_AFTER) return { rounds: 0, leastLogprob: 0 };
    this.#sinceRound = 0;
    if (best === 0) return { rounds: 1, leastLogprob: 0 };
    const tokens = probabilities.slice(0, best).reduce((sum, probability) => sum + probability, 1);
    const nextMs = (stepMs(MAX_ROUNDS) - stepMs(0)) / MAX_ROUNDS;
    // What another token would cost, in tokens; it is accepted if those before it are, and then at the usual rate.
    const least = (nextMs * tokens) / stepMs(best) / acceptanceRate;
    return { rounds: MAX_ROUNDS, leastLogprob: Math.log(Math.min(least, MOST_CERTAINTY)) };
  }

  /** A draft for `sequences` took that. */
  observeDraft(sequences: number, { rounds, ms }: DraftTime): void {
    const usualMs = this.#rowCosts.usually(ms);
    if (usualMs === undefined) return;
    const factor = usualMs / this.#expectedMs(sequences, rounds);
    const before = this.#draftFactors.get(sequences) ?? (this.#draftShare === undefined ? factor : 1);
    const learning = factor < before ? ROUND_LEARNING.shorter : ROUND_LEARNING.longer;
    this.#draftFactors.set(sequences, before + learning * (factor - before));
  }

  /** Of a draft for `sequences` by its length, of which a model makes so many rounds at most. */
  #draftMs(sequences: number): (length: number) => number {
    const factor = this.#draftFactors.get(sequences) ?? 1;
    return (length) =>
      length === 0 ? 0 : factor * this.#expectedMs(sequences, Math.min(length, MAX_ROUNDS));
  }

  #expectedMs(sequences: number, rounds: number): number {
    const { call, round } = this.#draftShare ?? USUAL_DRAFT;
    return (call + rounds * round) * this.#rowCosts.of(sequences);
  }

  observe({ items, load }: StepPlan, ms: number): void {
    const isDecode = items.every(({ samples, count, draft }) => samples && count === 1 + draft.tokens.length);
    if (isDecode) this.#rowCosts.observe(load.tokens, ms);
  }

  /**
   * A step of all these sequences once they all decode, and `draftTokens` of them together. Prompts that are computed meanwhile take
   * their time with drafts or without: they must not make them look cheap.
   */
  #stepMs(sequences: number): (draftTokens: number) => number {
    return (draftTokens) => this.#rowCosts.of(sequences + draftTokens);
  }
}

/** Of a model's tokens, that each and all before it are accepted. */
function likelihoods(acceptanceRate: number): number[] {
  return Array.from({ length: MAX_ROUNDS }, (_, depth) => acceptanceRate ** (depth + 1));
}

/** Measurements waver: a longer draft takes longer, and the first round is no cheaper than the others. */
function shareOf([short, long]: readonly DraftTime[], rowMs: number): DraftShare | undefined {
  if (short === undefined) return undefined;
  const mostRoundMs = short.ms / short.rounds;
  if (long === undefined) return { call: 0, round: mostRoundMs / rowMs };
  const between = (long.ms - short.ms) / (long.rounds - short.rounds);
  const roundMs = Math.min(Math.max(between, LEAST_ROUND_SHARE * mostRoundMs), mostRoundMs);
  return { call: (short.ms - short.rounds * roundMs) / rowMs, round: roundMs / rowMs };
}

/** How many of each sequence's draft tokens are worth their rows, where a step with them takes `stepMs`. */
export function draftLengths(
  probabilities: readonly (readonly number[])[],
  sequences: number,
  stepMs: (draftTokens: number) => number,
): number[] {
  const lengths = probabilities.map(() => 0);
  let best = [...lengths];
  let tokens = sequences;
  const leastGain = sequences <= FEW_SEQUENCES ? LEAST_GAIN.few : LEAST_GAIN.many;
  let highest = (1 + leastGain) * (tokens / stepMs(0));
  for (let draftTokens = 1; ; draftTokens++) {
    const next = likeliest(probabilities, lengths);
    if (next === undefined) return best;
    tokens += probabilities[next]?.[lengths[next] as number] as number;
    lengths[next] = (lengths[next] as number) + 1;
    const worth = tokens / stepMs(draftTokens);
    if (worth <= highest) continue;
    highest = worth;
    best = [...lengths];
  }
}

/** Whose next draft token is most likely accepted. */
function likeliest(
  probabilities: readonly (readonly number[])[],
  lengths: readonly number[],
): number | undefined {
  let most: number | undefined;
  let highest = 0;
  for (const [i, list] of probabilities.entries()) {
    const probability = list[lengths[i] as number];
    if (probability !== undefined && probability > highest) [most, highest] = [i, probability];
  }
  return most;
}
