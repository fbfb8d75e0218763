// Guesses for the steps of an engine: who gets how many, and what was learned from them. A guess is a row more in the same
// step; it is kept where it equals the token that is drawn anyway, so that answers are the same without it.

import type { CostModel } from '../scheduler/cost-model.ts';
import type { StepLoad, StepPlan } from '../scheduler/step-plan.ts';
import type { DraftTime } from './draft-model.ts';
import type { Drafter } from './drafter.ts';
import { Guesser } from './guesser.ts';
import { Habits } from './habits.ts';
import { Rates } from './rates.ts';
import { RowCosts, type RowTime } from './row-costs.ts';
import { shareGuesses } from './share-guesses.ts';

/** A round of a draft model is thought to take so much of a step, before it was measured. */
const DRAFT_SHARE = 0.15;
const DRAFT_LEARNING = 0.1;
const DRAFT_AGAIN_AFTER = 64;
const MOST_DRAFT_ROUNDS = 8;

export class Speculation {
  readonly habits = new Habits();
  readonly #rates = new Rates();
  readonly #rowCosts: RowCosts;
  readonly #costModel: CostModel;
  /** A round of the draft model, by the sequences that it guesses for. */
  readonly #draftMs = new Map<number, number>();
  #sinceDraft = 0;

  /** The cost model of steps in which prompts are computed, too; what steps of several rows were measured to take. */
  constructor(costModel: CostModel, rowTimes?: readonly RowTime[]) {
    this.#costModel = costModel;
    this.#rowCosts = new RowCosts(rowTimes);
  }

  guesser(drafters: readonly Drafter[]): Guesser {
    return new Guesser(drafters, this.#rates);
  }

  /** Whether a guess would pay in this step if it were surely right. Now and then a step goes without, to be measured. */
  couldPay(decoding: number, load: StepLoad): boolean {
    if (decoding === load.sequences && !this.#rowCosts.isFresh(load.tokens)) return false;
    const stepMs = this.#stepMs(decoding, load);
    return (load.sequences + 1) * stepMs(0) > load.sequences * stepMs(1);
  }

  /** How many guesses each of those who decode should get, by the chances of theirs. */
  share(chances: readonly (readonly number[])[], load: StepLoad): number[] {
    return shareGuesses(chances, load.sequences, this.#stepMs(chances.length, load));
  }

  /** How many tokens a draft model should guess for each of so many sequences, one round after the other. */
  draftRounds(sequences: number): number {
    this.#sinceDraft += 1;
    const chance = this.#rates.of('model');
    const best = bestRounds(chance, (rounds) => {
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
    const isDecode = items.every(({ samples, count, guesses }) => samples && count === 1 + guesses.length);
    if (isDecode) this.#rowCosts.observe(load.tokens, ms);
  }

  /**
   * A step of all these sequences once they all decode, and so many guesses. Prompts that are computed meanwhile take their
   * time with guesses or without: they must not make them look cheap.
   */
  #stepMs(decoding: number, { tokens, sequences, attended }: StepLoad): (guesses: number) => number {
    if (decoding === sequences) return (guesses) => this.#rowCosts.of(tokens + guesses);
    return (guesses) => {
      const rows = sequences + guesses;
      return this.#costModel.predictMs({ tokens: rows, sequences, attended: (rows * attended) / tokens });
    };
  }
}

/** The number of guesses that makes most tokens a millisecond, where each is right by the same chance. */
function bestRounds(chance: number, ms: (rounds: number) => number): number {
  let [best, highest] = [0, 1 / ms(0)];
  let tokens = 1;
  for (let rounds = 1; rounds <= MOST_DRAFT_ROUNDS; rounds++) {
    tokens += chance ** rounds;
    const worth = tokens / ms(rounds);
    if (worth > highest) [best, highest] = [rounds, worth];
  }
  return best;
}
