// A request on its way through the engine: its sequence, and what sampling must know of it.

import type { Matcher } from '../grammar/matcher.ts';
import { BudgetExceeded } from '../grammar/step-budget.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { type SamplingParameters, scoringParameters } from '../sampling/parameters.ts';
import type { SampledToken, SampleRow } from '../sampling/sample-row.ts';
import { needsState, SamplerState } from '../sampling/sampler-state.ts';
import {
  type FinishReason,
  finishReason,
  forbiddenIds,
  type StopToken,
  stopToken,
} from '../sampling/stop-condition.ts';
import { ThinkingBudget } from '../sampling/thinking-budget.ts';
import { intersection, isAllowed, isAnyLeft, maskOf } from '../sampling/token-mask.ts';
import type {
  AnswerRequest,
  EmbedRequest,
  EndReason,
  EngineRequest,
  FinishEvent,
  RequestError,
  ScoreRequest,
} from './request.ts';
import { PooledStates, type Stretch } from './scheduler/pooled-states.ts';
import { ScoredTokens } from './scheduler/scored-tokens.ts';
import { Sequence } from './scheduler/sequence.ts';
import type { Lookahead } from './speculation/drafter.ts';

export class OpenRequest<Request extends EngineRequest = EngineRequest> {
  readonly request: Request;
  readonly sequence: Sequence;

  constructor(request: Request, sequence: Sequence) {
    this.request = request;
    this.sequence = sequence;
  }

  /** Of the prompt, what was computed or found in the cache, though it may have been taken back since. */
  get computedPrompt(): number {
    const { computed, reached, promptLength } = this.sequence;
    return this.generated > 0 ? promptLength : Math.min(Math.max(computed, reached), promptLength);
  }

  get generated(): number {
    return this.sequence.length - this.sequence.promptLength;
  }

  ended(reason: EndReason, error?: RequestError): FinishEvent {
    return {
      kind: 'finish',
      id: this.request.id,
      reason,
      ...(error === undefined ? {} : { error }),
      promptTokens: this.computedPrompt,
      cachedTokens: Math.min(this.sequence.cachedTokens, this.computedPrompt),
      generatedTokens: this.generated,
    };
  }
}

const noTokens: readonly number[] = [];
const anyToken = 0;

interface AnswerLimits {
  /** Prompt and answer together. */
  readonly maxTokens: number;
  /** The model's own end tokens. */
  readonly endIds: readonly number[];
  readonly vocabSize: number;
}

interface AnswerEnd {
  readonly reason: FinishReason;
  readonly stop?: StopToken;
}

export class OpenAnswer extends OpenRequest<AnswerRequest> {
  readonly #endIds: readonly number[];
  readonly #vocabSize: number;
  /** Undefined where its samplers need to know nothing of the tokens before. */
  readonly #samplers: SamplerState | undefined;
  readonly #thinking: ThinkingBudget | undefined;
  /** Allowed by the request, whatever the grammar says. */
  readonly #allowed: Uint32Array | undefined;
  /** Tokens at the beginning that were published before and are sampled again. */
  readonly #publishedTokens: number;
  readonly #matcher: Matcher | undefined;
  /** What may come next, once it was found out. */
  #mask: Uint32Array | undefined;

  /** `matcher`: where the answer stands in its grammar, if it has one. */
  constructor(
    request: AnswerRequest,
    { maxTokens, endIds, vocabSize }: AnswerLimits,
    matcher?: Matcher,
    publishedTokens = 0,
  ) {
    super(request, answerSequence(request, maxTokens));
    this.#publishedTokens = publishedTokens;
    this.#endIds = endIds;
    this.#vocabSize = vocabSize;
    this.#matcher = matcher;
    if (needsState(request.parameters)) {
      this.#samplers = new SamplerState(request.parameters, request.prompt, request.answer ?? []);
    }
    if (request.thinking !== undefined)
      this.#thinking = new ThinkingBudget(request.thinking, request.answer ?? []);
    this.#allowed = intersection(request.mask, maskOf(request.parameters.allowedTokenIds, vocabSize));
  }

  /** Whether the `count`th token after those of the sequence was published before. */
  isPublished(count: number): boolean {
    return this.generated + count <= this.#publishedTokens;
  }

  override ended(reason: EndReason, error?: RequestError): FinishEvent {
    const event = super.ended(reason, error);
    return { ...event, generatedTokens: Math.max(event.generatedTokens, this.#publishedTokens) };
  }

  /** How the next token is to be sampled. */
  sampleRow(): SampleRow {
    return this.#sampleRow(noTokens, this.#matcher, this.#mask);
  }

  /** The same of the token after that one, where it does not matter which that is. */
  rowAfterNext(): SampleRow | undefined {
    const depends = this.#dependsOnTokens || this.#matcher !== undefined;
    return depends ? undefined : this.#sampleRow([anyToken], undefined);
  }

  /** Whether, the grammar aside, it matters to a token which ones came before it. */
  get #dependsOnTokens(): boolean {
    return this.#samplers !== undefined || this.#thinking !== undefined;
  }

  /** What tokens spell, where a grammar must know it. */
  get vocabulary(): VocabularyTables | undefined {
    return this.#matcher?.vocabulary;
  }

  lookahead(): Lookahead {
    const matcher = this.#matcher?.fork();
    const { parameters } = this.request;
    const tokens: number[] = [];
    return {
      accept: (token) => {
        if (!(Number.isInteger(token) && token >= 0 && token < this.#vocabSize)) return false;
        // What mirostat allows the next token is not known before this one is sampled.
        if (parameters.mirostat !== 0) return false;
        const generated = this.generated + tokens.length + 1;
        if (finishReason(parameters, this.#endIds, token, generated) !== undefined) return false;
        if (matcher !== undefined && (matcher.ended || !matcher.accept(token))) return false;
        tokens.push(token);
        return !matcher?.ended;
      },
      row: () => this.#possibleRow(tokens, matcher),
      rows: (most) => this.#rowsAfter(tokens, matcher, most),
      likely: (most) => matcher?.likely(most) ?? { tokens: [], forced: 0 },
      ending: (most) => matcher?.ending(most) ?? [],
    };
  }

  /** Takes a token that was sampled, the `count`th after those of the sequence. Here alone is decided whether it is the last. */
  accept({ token, mu }: SampledToken, count: number): AnswerEnd | undefined {
    this.#samplers?.accept(token, mu);
    this.#thinking?.accept(token);
    const { parameters } = this.request;
    const generated = this.generated + count;
    const stop = stopToken(parameters, this.#endIds, token, generated);
    if (stop !== undefined) return { reason: 'stop', stop };
    this.#mask = undefined;
    this.#matcher?.accept(token);
    if (this.#matcher?.ended === true) return { reason: 'stop' };
    const isLast =
      generated === parameters.maxTokens || this.sequence.length + count === this.sequence.maxTokens;
    return isLast ? { reason: 'length' } : undefined;
  }

  /** Why the answer cannot go on, though it is not complete: found out before the step in which it would be sampled. */
  get obstacle(): RequestError | undefined {
    try {
      // Kept: finding it out again could cost more than the answer may spend.
      this.#mask ??= this.#matcher?.mask();
      return undefined;
    } catch (error) {
      if (error instanceof BudgetExceeded) return { code: 'grammar-failed', message: error.message };
      throw error;
    }
  }

  /** Undefined where the grammar is too ambiguous to look so far ahead. */
  #possibleRow(tokens: readonly number[], matcher: Matcher | undefined): SampleRow | undefined {
    try {
      return this.#sampleRow(tokens, matcher);
    } catch (error) {
      if (error instanceof BudgetExceeded) return undefined;
      throw error;
    }
  }

  /** See `Lookahead.rows`. */
  #rowsAfter(tokens: readonly number[], matcher: Matcher | undefined, most: number): SampleRow[] {
    const first = this.#possibleRow(tokens, matcher);
    if (first === undefined) return [];
    const rows = [first];
    const further = [...tokens];
    for (let count = this.#dependsOnTokens ? 1 : most; rows.length < count; ) {
      further.push(anyToken);
      rows.push(this.#sampleRow(further, undefined));
    }
    return rows;
  }

  /** After further tokens; `matcher` is where they lead. */
  #sampleRow(tokens: readonly number[], matcher: Matcher | undefined, known?: Uint32Array): SampleRow {
    const { parameters, choice = 0 } = this.request;
    const own = known ?? matcher?.mask();
    const allowed = intersection(own, this.#allowed);
    const forced = this.#thinking?.after(tokens).forced;
    // A grammar that does not allow the end of reasoning here goes first.
    const isForced = forced !== undefined && isAllowed(allowed, forced);
    const early = isForced ? [] : this.#forbidden(this.generated + tokens.length, matcher, own);
    const state = this.#samplers?.row(this.sequence.tokens, tokens);
    return {
      parameters,
      position: this.sequence.length + tokens.length,
      choice,
      forbidden: isForced || state === undefined ? early : [...state.forbidden, ...early],
      mask: isForced ? maskOf([forced], this.#vocabSize) : allowed,
      counts: state?.counts,
      dry: state?.dry,
      mu: state?.mu,
    };
  }

  /** Nothing that ends an answer may be sampled before the answer is complete. */
  #forbidden(
    generated: number,
    matcher: Matcher | undefined,
    mask: Uint32Array | undefined,
  ): readonly number[] {
    const { parameters } = this.request;
    const early = forbiddenIds(parameters, this.#endIds, generated);
    if (matcher === undefined || mask === undefined) return early;
    if (!matcher.complete) return [...early, ...parameters.stopIds];
    // An end token that ends nothing is no part of what the grammar allows.
    const forbidden = parameters.ignoreEos ? [...early, ...this.#endIds] : early;
    // Where nothing may follow, the grammar ends the answer, however short it is.
    return forbidden.length === 0 || isAnyLeft(mask, forbidden) ? forbidden : [];
  }
}

export class OpenScoring extends OpenRequest<ScoreRequest> {
  readonly #parameters: SamplingParameters;

  constructor(request: ScoreRequest) {
    const { prompt: tokens, scoring } = request;
    const scored = new ScoredTokens(tokens.length);
    super(request, new Sequence({ ...request, tokens, maxTokens: tokens.length + 1, scored }));
    this.#parameters = scoringParameters(scoring);
  }

  /** How the tokens after these rows are scored. */
  scoredRows([from, to]: Stretch): SampleRow[] {
    const { tokens } = this.sequence;
    return Array.from({ length: to - from }, (_, i) => ({
      parameters: this.#parameters,
      position: from + i + 1,
      choice: 0,
      forbidden: [],
      given: tokens[from + i + 1] as number,
    }));
  }
}

export class OpenEmbedding extends OpenRequest<EmbedRequest> {
  constructor(request: EmbedRequest) {
    const { prompt: tokens, pooling } = request;
    const pooled = new PooledStates(pooling, tokens.length);
    // Its last token gets KV like any other, as if one more were to follow.
    super(request, new Sequence({ ...request, tokens, maxTokens: tokens.length + 1, pooled }));
  }
}

function answerSequence(request: AnswerRequest, maxTokens: number): Sequence {
  const { prompt, answer = [] } = request;
  const tokens = new Int32Array(prompt.length + answer.length);
  tokens.set(prompt);
  tokens.set(answer, prompt.length);
  return new Sequence({ ...request, tokens, promptLength: prompt.length, maxTokens });
}
