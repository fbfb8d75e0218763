// How many draft tokens each sequence gets: as many as make the step worth most, in tokens a millisecond, by their acceptance
// rates and by what steps were measured to take.

import type { StepLoad, StepPlan } from '../scheduler/step-plan.ts';
import { RowCosts, type RowTime } from './row-costs.ts';

/**
 * What drafts must promise over none, since costs are measured on machines that are never quite still. Where many decode, each
 * draft token adds little to the step, and what it costs is known less well.
 */
const LEAST_GAIN = { few: 0.02, many: 0.3 } as const;
const FEW_SEQUENCES = 8;
/** The part of a step that a round of a model that drafts is thought to take, before it was measured. */
const ROUND_SHARE = 0.15;
/** What disturbs a round only makes it longer: a short one is believed sooner. */
const ROUND_LEARNING = { shorter: 0.5, longer: 0.1 } as const;
/** Steps after which a draft model that does not pay is tried again. */
const ROUND_AGAIN_AFTER = 64;
const MAX_ROUNDS = 8;

/** What rounds of the draft model took. */
interface RoundTime {
  readonly sequences: number;
  readonly rounds: number;
  readonly ms: number;
}

export class DraftLengths {
  readonly #rowCosts: RowCosts;
  /** A round of the draft model, by the sequences that it drafts for. */
  readonly #roundMs = new Map<number, number>();
  #sinceRound = 0;

  /** A round for one sequence in steps of one row, where it was measured before the first step. */
  readonly #roundShare: number | undefined;

  /** `rowTimes`: what steps of several rows were measured to take; `roundMs`: what a round for one sequence was. */
  constructor(rowTimes?: readonly RowTime[], roundMs?: number) {
    this.#rowCosts = new RowCosts(rowTimes);
    const [first] = rowTimes ?? [];
    if (roundMs !== undefined && first !== undefined) this.#roundShare = roundMs / first.ms;
  }

  /** Whether a draft token would pay in this step if it were surely accepted. Now and then a step goes without, to be measured. */
  couldPay(decoding: number, { sequences }: StepLoad): boolean {
    if (decoding === sequences && !this.#rowCosts.isFresh(sequences)) return false;
    const stepMs = this.#stepMs(sequences);
    return (sequences + 1) * stepMs(0) > sequences * stepMs(1);
  }

  /** `probabilities`: of each sequence that decodes, for each of its draft tokens, that it and all before it are accepted. */
  of(probabilities: readonly (readonly number[])[], { sequences }: StepLoad): number[] {
    return draftLengths(probabilities, sequences, this.#stepMs(sequences));
  }

  /**
   * How many tokens a draft model should draft for each sequence, one round after the other; `acceptanceRate`: of the one at
   * `depth`, counted from 0.
   */
  rounds(sequences: number, acceptanceRate: (depth: number) => number): number {
    this.#sinceRound += 1;
    const roundMs =
      this.#roundMs.get(sequences) ??
      this.#expectedRoundMs(sequences) ??
      ROUND_SHARE * this.#rowCosts.of(sequences);
    const stepMs = (rounds: number) => this.#rowCosts.of(sequences * (1 + rounds)) + rounds * roundMs;
    let probability = 1;
    const probabilities = Array.from({ length: MAX_ROUNDS }, (_, depth) => {
      probability *= acceptanceRate(depth);
      return probability;
    });
    const [best] = draftLengths([probabilities], 1, stepMs);
    const rounds = best === 0 && this.#sinceRound >= ROUND_AGAIN_AFTER ? 1 : (best as number);
    if (rounds > 0) this.#sinceRound = 0;
    return rounds;
  }

  observeRounds({ sequences, rounds, ms }: RoundTime): void {
    const each = this.#rowCosts.usually(ms / rounds);
    const before = this.#roundMs.get(sequences) ?? this.#expectedRoundMs(sequences) ?? each;
    const learning = each < before ? ROUND_LEARNING.shorter : ROUND_LEARNING.longer;
    this.#roundMs.set(sequences, before + learning * (each - before));
  }

  #expectedRoundMs(sequences: number): number | undefined {
    return this.#roundShare === undefined ? undefined : this.#roundShare * this.#rowCosts.of(sequences);
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
