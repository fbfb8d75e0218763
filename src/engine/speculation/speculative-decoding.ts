// Speculative decoding for the steps of an engine: drafts for the sequences that decode, and what is learned from those that were
// computed. Answers are the same without it. Knows no clock: times are passed in.

import { BLOCK_TOKENS, KEPT_STATES } from '../../compute/backend.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import type { OpenAnswer } from '../open-request.ts';
import type { AnswerRequest, DraftTokenCounts } from '../request.ts';
import type { Draft, DraftToken } from '../scheduler/draft.ts';
import type { Sequence } from '../scheduler/sequence.ts';
import type { StepLoad, StepPlan } from '../scheduler/step-plan.ts';
import { AcceptanceRates } from './acceptance-rates.ts';
import { DraftLengths, type DraftTime } from './draft-lengths.ts';
import { DraftModel, type DraftModelOptions } from './draft-model.ts';
import type { Drafter, ModelDrafter, ModelDrafts } from './drafter.ts';
import type { MtpDrafter } from './mtp-drafter.ts';
import { NgramCache, NgramCacheDrafter } from './n-gram-cache.ts';
import { PromptLookupDrafter } from './prompt-lookup-drafter.ts';
import type { RowTime } from './row-costs.ts';
import { type ProposedToken, SequenceDrafter } from './sequence-drafter.ts';
import { WordCompletionDrafter } from './word-completion-drafter.ts';

export interface SpeculationOptions {
  /** A smaller model that drafts. Closed with the engine's own. */
  readonly draft?: DraftModelOptions | undefined;
  /** What steps of several rows were measured to take. Default: what is usual. */
  readonly rowTimes?: readonly RowTime[] | undefined;
  /** What drafts of the model's own head were measured to take, for one sequence. Default: what is usual. */
  readonly draftTimes?: readonly DraftTime[] | undefined;
  /** Who drafts. Default: prompt lookup, the n-gram cache and word completion. */
  readonly newDrafter?: (request: AnswerRequest, tokens: Int32Array) => Drafter;
}

const noModelDrafts: ModelDrafts = new Map();

export class SpeculativeDecoding {
  readonly #options: SpeculationOptions;
  readonly #lengths: DraftLengths;
  readonly #rates = new AcceptanceRates();
  readonly #ngramCache = new NgramCache();
  readonly #drafters = new Map<Sequence, SequenceDrafter>();
  readonly #model: ModelDrafter | undefined;
  readonly #hasHead: boolean;
  /** What the model took to draft for the next step. */
  #draftMs = 0;

  /** `blocks`: how many of a draft model's may hold memory. `head`: the model's own, which drafts where no draft model is given. */
  constructor(options: SpeculationOptions, blocks: number, head?: MtpDrafter) {
    this.#options = options;
    this.#lengths = new DraftLengths(
      options.rowTimes,
      options.draft === undefined ? options.draftTimes : undefined,
    );
    this.#model = options.draft === undefined ? head : new DraftModel(options.draft);
    this.#hasHead = head !== undefined;
    this.allow(blocks);
  }

  allow(blocks: number): void {
    this.#model?.allow(blocks);
  }

  useThreads(count: number): void {
    this.#model?.useThreads(count);
  }

  /** Whether a model drafts, before each step: a smaller one, or the MTP head. */
  get hasModel(): boolean {
    return this.#model !== undefined;
  }

  /** Before a step: lets the model draft for those that decode, where no drafter knows better. */
  async runModel(running: readonly OpenAnswer[], nowMs: () => number): Promise<ModelDrafts> {
    this.#draftMs = 0;
    const model = this.#model;
    if (model === undefined) return noModelDrafts;
    const decoding = running.filter(({ sequence }) => sequence.remaining === 1);
    const load = { sequences: decoding.length, tokens: decoding.length };
    if (!this.#lengths.couldPay(load)) return noModelDrafts;
    const fitting = decoding.filter(({ sequence }) => model.fits(sequence));
    const rate = this.#rates.of({ source: model.source, matchLength: 0 });
    const wanting = fitting.filter((open) => this.#wantsModel(open, decoding.length, rate));
    // Now and then where nobody wants one: what drafts take may have been measured at a bad moment.
    const asking = wanting.length > 0 || !this.#lengths.isTimeToAsk() ? wanting : fitting;
    if (asking.length === 0) return noModelDrafts;
    const jobs = asking.map((open) => ({ sequence: open.sequence, lookahead: open.lookahead() }));
    const limits = this.#lengths.limits(jobs.length, rate);
    if (limits.rounds === 0) return noModelDrafts;
    const ready = await model.catchUp(jobs);
    const startedMs = nowMs();
    const { drafts, rounds } = await model.draft(ready, limits);
    const ms = nowMs() - startedMs;
    this.#draftMs = ms;
    if (rounds > 0) this.#lengths.observeDraft(ready.length, { rounds, ms });
    return drafts;
  }

  /** Drafts for the answers that get a token in a step, which is `load` without them. */
  propose(
    sampling: readonly OpenAnswer[],
    load: StepLoad,
    modelDrafts: ModelDrafts = noModelDrafts,
  ): ReadonlyMap<Sequence, Draft> {
    if (!this.#lengths.couldPay(load)) return new Map();
    const proposed = sampling.map((open) => this.#proposed(open, modelDrafts.get(open.sequence)));
    const lengths = this.#lengths.of(
      proposed.map((tokens) => tokens.map(({ probability }) => probability)),
      load,
      this.#draftMs,
    );
    return new Map(
      sampling.map((open, i) => [
        open.sequence,
        draftOf(open, proposed[i] as readonly ProposedToken[], lengths[i] as number),
      ]),
    );
  }

  /** The step is planned: gives back what is needed no more. */
  async planned({ preempted }: StepPlan): Promise<void> {
    for (const sequence of preempted) this.#model?.release(sequence);
    await this.#model?.keepToLimit();
  }

  observe(plan: StepPlan, ms: number): void {
    this.#lengths.observe(plan, ms);
  }

  /** A sequence that had this draft goes on with these tokens. */
  commit(sequence: Sequence, draft: Draft, sampled: readonly number[]): void {
    this.#drafters.get(sequence)?.commit(draft, sampled);
  }

  /** The sequence has ended. Returns what became of its draft tokens, where any were sought. */
  end(sequence: Sequence): DraftTokenCounts | undefined {
    const counts = this.#drafters.get(sequence)?.counts;
    this.#drafters.delete(sequence);
    this.#model?.release(sequence);
    return counts;
  }

  /** Whether a model is worth asking, whose tokens are accepted at this rate. */
  #wantsModel(open: OpenAnswer, sequences: number, rate: number): boolean {
    const known = this.#proposed(open);
    // The grammar knows the next token, and nothing may follow it.
    if (known.length === 0 && open.lookahead().likely(1).tokens.length > 0) return false;
    const probabilities = known.map(({ probability }) => probability);
    return this.#lengths.wantsModel(probabilities, sequences, rate);
  }

  #proposed(open: OpenAnswer, modelTokens?: readonly DraftToken[]): readonly ProposedToken[] {
    const { maxTokens, length } = open.sequence;
    const room = maxTokens - 1 - length;
    const most = this.#hasHead ? Math.min(room, mostBeforeHead(length - 1)) : room;
    return this.#drafterOf(open).propose(open.lookahead(), most, modelTokens);
  }

  #drafterOf(open: OpenAnswer): SequenceDrafter {
    const known = this.#drafters.get(open.sequence);
    if (known !== undefined) return known;
    const drafter = new SequenceDrafter(this.#newDrafters(open), new AcceptanceRates(this.#rates));
    this.#drafters.set(open.sequence, drafter);
    return drafter;
  }

  #newDrafters({ request, sequence, vocabulary }: OpenAnswer): Drafter[] {
    const { tokens, promptLength, salt } = sequence;
    const { newDrafter } = this.#options;
    if (newDrafter !== undefined) return [newDrafter(request, tokens)];
    const lookup = new PromptLookupDrafter(request.prompt, request.expected);
    for (const token of tokens.subarray(promptLength)) lookup.accept(token);
    const drafters = [lookup, new NgramCacheDrafter(this.#ngramCache, salt, tokens)];
    if (vocabulary === undefined) return drafters;
    return [...drafters, new WordCompletionDrafter(vocabulary, tokens, promptLength)];
  }
}

/**
 * How many draft tokens may follow the token at this position where the model has an MTP head. It goes on from the state of the last
 * token that was accepted: of a step a block keeps the last ones, and those of its own last tokens.
 */
export function mostBeforeHead(position: number): number {
  const left = BLOCK_TOKENS - (position % BLOCK_TOKENS);
  return KEPT_STATES - 1 + (left <= KEPT_STATES ? left : 0);
}

/** The first `length` of the proposed tokens, as far as it can be found out how those after them are sampled. */
function draftOf(open: OpenAnswer, proposed: readonly ProposedToken[], length: number): Draft {
  const tokens: number[] = [];
  const rows: SampleRow[] = [];
  const lookahead = open.lookahead();
  for (const { token } of proposed.slice(0, length)) {
    const row = lookahead.accept(token) ? lookahead.row() : undefined;
    if (row === undefined) break;
    tokens.push(token);
    rows.push(row);
  }
  return { tokens, rows, proposed };
}
