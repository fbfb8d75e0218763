// Draft tokens for the steps of an engine: who gets how many, and what was learned from them. A draft token is a row more in the same
// step; it is kept where it equals the token that is drawn anyway, so that answers are the same without it.

import type { StepLoad, StepPlan } from '../scheduler/step-plan.ts';
import { AcceptanceRates } from './acceptance-rates.ts';
import { draftLengths } from './draft-lengths.ts';
import type { DraftTime } from './draft-model.ts';
import type { Drafter } from './drafter.ts';
import { NgramCache } from './n-gram-cache.ts';
import { RowCosts, type RowTime } from './row-costs.ts';
import { SequenceDrafter } from './sequence-drafter.ts';

/** A round of a draft model is thought to take so much of a step, before it was measured. */
const DRAFT_SHARE = 0.15;
const DRAFT_LEARNING = 0.1;
const DRAFT_AGAIN_AFTER = 64;
const MOST_DRAFT_ROUNDS = 8;

export class Speculation {
  readonly ngramCache = new NgramCache();
  readonly #rates = new AcceptanceRates();
  readonly #rowCosts: RowCosts;
  /** A round of the draft model, by the sequences that it drafts for. */
  readonly #draftMs = new Map<number, number>();
  #sinceDraft = 0;

  /** What steps of several rows were measured to take. */
  constructor(rowTimes?: readonly RowTime[]) {
    this.#rowCosts = new RowCosts(rowTimes);
  }

  drafter(drafters: readonly Drafter[]): SequenceDrafter {
    return new SequenceDrafter(drafters, this.#rates);
  }

  /** Whether a draft token would pay in this step if it were surely right. Now and then a step goes without, to be measured. */
  couldPay(decoding: number, { sequences }: StepLoad): boolean {
    if (decoding === sequences && !this.#rowCosts.isFresh(sequences)) return false;
    const stepMs = this.#stepMs(sequences);
    return (sequences + 1) * stepMs(0) > sequences * stepMs(1);
  }

  /** How many draft tokens each of those who decode should get, by the probabilities of theirs. */
  share(probabilities: readonly (readonly number[])[], { sequences }: StepLoad): number[] {
    return draftLengths(probabilities, sequences, this.#stepMs(sequences));
  }

  /** How many tokens a draft model should draft for each of so many sequences, one round after the other. */
  draftRounds(sequences: number): number {
    this.#sinceDraft += 1;
    const probability = this.#rates.of({ source: 'draft-model', matchLength: 0 });
    const best = bestRounds(probability, (rounds) => {
      const stepMs = this.#rowCosts.of(sequences * (1 + rounds));
      return stepMs + rounds * (this.#draftMs.get(sequences) ?? DRAFT_SHARE * this.#rowCosts.of(sequences));
    });
    // Now and then one shows whether it would pay again.
    const rounds = best === 0 && this.#sinceDraft >= DRAFT_AGAIN_AFTER ? 1 : best;
    if (rounds > 0) this.#sinceDraft = 0;
    return rounds;
  }

  observeDraft({ sequences, rounds, ms }: DraftTime): void {
    const each = this.#rowCosts.usually(ms / rounds);
    const before = this.#draftMs.get(sequences);
    this.#draftMs.set(sequences, before === undefined ? each : before + DRAFT_LEARNING * (each - before));
  }

  /** A step took so long. */
  observe({ items, load }: StepPlan, ms: number): void {
    const isDecode = items.every(({ samples, count, draft }) => samples && count === 1 + draft.length);
    if (isDecode) this.#rowCosts.observe(load.tokens, ms);
  }

  /**
   * A step of all these sequences once they all decode, and so many draft tokens. Prompts that are computed meanwhile take their
   * time with draft tokens or without: they must not make them look cheap.
   */
  #stepMs(sequences: number): (draftTokens: number) => number {
    return (draftTokens) => this.#rowCosts.of(sequences + draftTokens);
  }
}

/** The number of draft tokens that makes most tokens a millisecond, where each is right by the same probability. */
function bestRounds(probability: number, ms: (rounds: number) => number): number {
  let [best, highest] = [0, 1 / ms(0)];
  let tokens = 1;
  for (let rounds = 1; rounds <= MOST_DRAFT_ROUNDS; rounds++) {
    tokens += probability ** rounds;
    const worth = tokens / ms(rounds);
    if (worth > highest) [best, highest] = [rounds, worth];
  }
  return best;
}
