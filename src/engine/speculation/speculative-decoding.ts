// The engine's draft tokens: asks whoever may know what comes next, shares draft tokens out over the answers of a step, and takes note
// of what became of them.

import { OpenAnswer, type OpenRequest } from '../open-request.ts';
import type { AnswerRequest } from '../request.ts';
import { type DraftTokens, noDraft, type StepLoad, type StepPlan } from '../scheduler/step-plan.ts';
import type { Sequence } from '../sequence.ts';
import { DraftModel, type DraftOptions } from './draft-model.ts';
import type { Drafter } from './drafter.ts';
import { NgramCacheDrafter } from './n-gram-cache.ts';
import { PromptLookupDrafter } from './prompt-lookup-drafter.ts';
import type { RowTime } from './row-costs.ts';
import { Speculation } from './speculation.ts';
import { WordCompletionDrafter } from './word-completion-drafter.ts';

export interface SpeculationOptions {
  /** A smaller model that drafts. Closed with the engine's own. */
  readonly draft?: DraftOptions | undefined;
  /** What steps of several rows were measured to take. Default: what is usual. */
  readonly rowTimes?: readonly RowTime[] | undefined;
  /** Who drafts. Default: the texts at hand. */
  readonly newDrafter?: (request: AnswerRequest, tokens: Int32Array) => Drafter;
}

export class SpeculativeDecoding {
  readonly #options: SpeculationOptions;
  readonly #speculation: Speculation;
  readonly #draftModel: DraftModel | undefined;

  /** `blocks`: how many may hold memory. */
  constructor(options: SpeculationOptions, blocks: number) {
    this.#options = options;
    this.#speculation = new Speculation(options.rowTimes);
    if (options.draft !== undefined) this.#draftModel = new DraftModel(options.draft);
    this.allow(blocks);
  }

  allow(blocks: number): void {
    this.#draftModel?.allow(blocks);
  }

  useThreads(count: number): void {
    this.#draftModel?.useThreads(count);
  }

  /** Before a step: lets the draft model draft for those who decode, where nobody knows better. */
  async draft(running: readonly OpenRequest[]): Promise<void> {
    const draftModel = this.#draftModel;
    if (draftModel === undefined) return;
    const wishes = running.flatMap((open) => {
      if (!(open instanceof OpenAnswer) || open.drafter === undefined) return [];
      const { sequence, drafter, modelDrafter } = open;
      if (sequence.remaining !== 1 || !draftModel.fits(sequence) || drafter.knowsBetterThanModel()) return [];
      return [
        {
          sequence,
          drafter: modelDrafter,
          rowAfter: (draftTokens: DraftTokens) => open.rowAfter(draftTokens),
        },
      ];
    });
    const rounds = wishes.length === 0 ? 0 : this.#speculation.draftRounds(wishes.length);
    if (rounds === 0) return;
    const time = await draftModel.draft(wishes, rounds);
    if (time !== undefined) this.#speculation.observeDraft(time);
  }

  /** For the answers that decode in a step. */
  propose(decoding: readonly OpenAnswer[], load: StepLoad): ReadonlyMap<Sequence, DraftTokens> {
    const draftTokens = new Map<Sequence, DraftTokens>();
    if (!this.#speculation.couldPay(decoding.length, load)) return draftTokens;
    const probabilities = decoding.map((open) => {
      open.drafter ??= this.#speculation.drafter(this.#newDrafters(open));
      return open.drafter.look(open.constraint(), open.sequence.maxTokens - 1 - open.sequence.length);
    });
    for (const [i, count] of this.#speculation.share(probabilities, load).entries()) {
      const open = decoding[i] as OpenAnswer;
      if (count > 0) draftTokens.set(open.sequence, open.look(open.drafter?.take(count) ?? noDraft));
    }
    return draftTokens;
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
    const text = new PromptLookupDrafter(request.prompt, request.expected);
    for (const token of tokens.subarray(promptLength)) text.accept(token);
    const drafters = [text, new NgramCacheDrafter(this.#speculation.ngramCache, salt, tokens), modelDrafter];
    return vocabulary === undefined
      ? drafters
      : [...drafters, new WordCompletionDrafter(vocabulary, tokens, promptLength)];
  }
}
