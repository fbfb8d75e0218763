// Guesses for the steps of an engine: who gets how many, and what was learned from them. A guess is a row more in the same
// step; it is kept where it equals the token that is drawn anyway, so that answers are the same without it.

import type { CostModel } from '../scheduler/cost-model.ts';
import type { StepLoad, StepPlan } from '../scheduler/step-plan.ts';
import type { Drafter } from './drafter.ts';
import { Guesser } from './guesser.ts';
import { Habits } from './habits.ts';
import { Rates } from './rates.ts';
import { RowCosts } from './row-costs.ts';
import { shareGuesses } from './share-guesses.ts';

export class Speculation {
  readonly habits = new Habits();
  readonly #rates = new Rates();
  readonly #rowCosts = new RowCosts();
  readonly #costModel: CostModel;

  /** The cost model of steps in which prompts are computed, too. */
  constructor(costModel: CostModel) {
    this.#costModel = costModel;
  }

  guesser(drafters: readonly Drafter[]): Guesser {
    return new Guesser(drafters, this.#rates);
  }

  /** Whether a guess would pay in this step if it were surely right. */
  couldPay(decoding: number, load: StepLoad): boolean {
    const stepMs = this.#stepMs(decoding, load);
    return (decoding + 1) * stepMs(0) > decoding * stepMs(1);
  }

  /** How many guesses each of those who decode should get, by the chances of theirs. */
  share(chances: readonly (readonly number[])[], load: StepLoad): number[] {
    return shareGuesses(chances, chances.length, this.#stepMs(chances.length, load));
  }

  /** A step took so long. */
  observe({ items, load }: StepPlan, ms: number): void {
    const isDecode = items.every(({ samples, count, guesses }) => samples && count === 1 + guesses.length);
    if (isDecode) this.#rowCosts.observe(load.tokens, ms);
  }

  #stepMs(decoding: number, load: StepLoad): (guesses: number) => number {
    if (decoding === load.sequences) return (guesses) => this.#rowCosts.of(load.tokens + guesses);
    const attended = load.attended / load.tokens;
    return (guesses) =>
      this.#costModel.predictMs({
        tokens: load.tokens + guesses,
        sequences: load.sequences,
        attended: load.attended + guesses * attended,
      });
  }
}
