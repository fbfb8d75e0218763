// The engine's guesses: asks whoever may know what comes next, shares guesses out over the answers of a step, and takes note
// of what became of them.

import { OpenAnswer, type OpenRequest } from './open-request.ts';
import type { AnswerRequest } from './request.ts';
import type { CostModel } from './scheduler/cost-model.ts';
import { type Guesses, noGuesses, type StepLoad, type StepPlan } from './scheduler/step-plan.ts';
import type { Sequence } from './sequence.ts';
import { DraftModel, type DraftOptions } from './speculation/draft-model.ts';
import type { Drafter } from './speculation/drafter.ts';
import { HabitDrafter } from './speculation/habits.ts';
import type { RowTime } from './speculation/row-costs.ts';
import { Speculation } from './speculation/speculation.ts';
import { TextDrafter } from './speculation/text-drafter.ts';
import { WordDrafter } from './speculation/word-drafter.ts';

export interface GuessingOptions {
  /** A smaller model that guesses. Closed with the engine's own. */
  readonly draft?: DraftOptions | undefined;
  /** What steps of several rows were measured to take. Default: what is usual. */
  readonly rowTimes?: readonly RowTime[] | undefined;
  /** Who guesses. Default: the texts at hand. */
  readonly newDrafter?: (request: AnswerRequest, tokens: Int32Array) => Drafter;
}

export class Guessing {
  readonly #options: GuessingOptions;
  readonly #speculation: Speculation;
  readonly #draftModel: DraftModel | undefined;

  /** `blocks`: how many may hold memory. */
  constructor(options: GuessingOptions, costModel: CostModel, blocks: number) {
    this.#options = options;
    this.#speculation = new Speculation(costModel, options.rowTimes);
    if (options.draft !== undefined) this.#draftModel = new DraftModel(options.draft);
    this.allow(blocks);
  }

  allow(blocks: number): void {
    this.#draftModel?.allow(blocks);
  }

  useThreads(count: number): void {
    this.#draftModel?.useThreads(count);
  }

  /** Before a step: lets the draft model guess for those who decode, where nobody knows better. */
  async draft(running: readonly OpenRequest[]): Promise<void> {
    const draftModel = this.#draftModel;
    if (draftModel === undefined) return;
    const wishes = running.flatMap((open) => {
      if (!(open instanceof OpenAnswer) || open.guesser === undefined) return [];
      const { sequence, guesser, modelDrafter: drafter } = open;
      if (sequence.remaining !== 1 || !draftModel.fits(sequence) || guesser.knowsBetterThan('model'))
        return [];
      return [{ sequence, drafter, rowBehind: (guesses: Guesses) => open.rowBehind(guesses) }];
    });
    const rounds = wishes.length === 0 ? 0 : this.#speculation.draftRounds(wishes.length);
    if (rounds === 0) return;
    const time = await draftModel.draft(wishes, rounds);
    if (time !== undefined) this.#speculation.observeDraft(time);
  }

  /** For the answers that decode in a step. */
  guess(decoding: readonly OpenAnswer[], load: StepLoad): ReadonlyMap<Sequence, Guesses> {
    const guesses = new Map<Sequence, Guesses>();
    if (!this.#speculation.couldPay(decoding.length, load)) return guesses;
    const chances = decoding.map((open) => {
      open.guesser ??= this.#speculation.guesser(this.#newDrafters(open));
      return open.guesser.look(open.horizon(), open.sequence.maxTokens - 1 - open.sequence.length);
    });
    for (const [i, count] of this.#speculation.share(chances, load).entries()) {
      const open = decoding[i] as OpenAnswer;
      if (count > 0) guesses.set(open.sequence, open.look(open.guesser?.take(count) ?? noGuesses));
    }
    return guesses;
  }

  /** The step is planned: gives back what is needed no more. */
  planned({ preempted }: StepPlan): void {
    for (const sequence of preempted) this.release(sequence);
    this.#draftModel?.keepToLimit();
  }

  /** It took so long. */
  observe(plan: StepPlan, ms: number): void {
    this.#speculation.observe(plan, ms);
  }

  release(sequence: Sequence): void {
    this.#draftModel?.release(sequence);
  }

  #newDrafters({ request, sequence, modelDrafter, vocabulary }: OpenAnswer): Drafter[] {
    const { tokens, promptLength, salt } = sequence;
    const { newDrafter } = this.#options;
    if (newDrafter !== undefined) return [newDrafter(request, tokens), modelDrafter];
    const text = new TextDrafter(request.prompt, request.expected);
    for (const token of tokens.subarray(promptLength)) text.accept(token);
    const drafters = [text, new HabitDrafter(this.#speculation.habits, salt, tokens), modelDrafter];
    return vocabulary === undefined
      ? drafters
      : [...drafters, new WordDrafter(vocabulary, tokens, promptLength)];
  }
}
