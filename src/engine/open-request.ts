// A request on its way through the engine: its sequence, and what sampling must know of it.

import { TooAmbiguous } from '../grammar/effort.ts';
import type { Matcher } from '../grammar/matcher.ts';
import type { SampleRow } from '../sampling/sample-row.ts';
import { type FinishReason, finishReason, forbiddenIds } from '../sampling/stop-condition.ts';
import { needsCounts, TokenCounts } from '../sampling/token-counts.ts';
import { PooledStates } from './pooled-states.ts';
import type {
  AnswerRequest,
  EmbedRequest,
  EndReason,
  EngineRequest,
  FinishEvent,
  RequestError,
} from './request.ts';
import { Sequence } from './sequence.ts';

export class OpenRequest<Request extends EngineRequest = EngineRequest> {
  readonly request: Request;
  readonly sequence: Sequence;

  constructor(request: Request, sequence: Sequence) {
    this.request = request;
    this.sequence = sequence;
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
      promptTokens: this.sequence.promptLength,
      cachedTokens: this.sequence.cachedTokens,
      generatedTokens: this.generated,
    };
  }
}

export class OpenAnswer extends OpenRequest<AnswerRequest> {
  readonly #endIds: readonly number[];
  readonly #counts: TokenCounts | undefined;
  readonly #matcher: Matcher | undefined;

  /**
   * `maxTokens`: prompt and answer together; `endIds`: the model's own end tokens; `matcher`: where the answer stands in
   * its grammar, if it has one.
   */
  constructor(request: AnswerRequest, maxTokens: number, endIds: readonly number[], matcher?: Matcher) {
    super(request, answerSequence(request, maxTokens));
    this.#endIds = endIds;
    this.#matcher = matcher;
    if (needsCounts(request.parameters)) this.#counts = new TokenCounts(request.prompt, request.answer ?? []);
  }

  /** How the next token is to be drawn. */
  sampleRow(): SampleRow {
    const { parameters, mask, choice = 0 } = this.request;
    return {
      parameters,
      counts: this.#counts,
      position: this.sequence.length,
      choice,
      forbidden: this.#forbidden(),
      mask: this.#matcher?.mask() ?? mask,
    };
  }

  /** Takes note of the token that the sequence was just given; tells whether it was the last. */
  accept(token: number): FinishReason | undefined {
    this.#counts?.addGenerated(token);
    const reason = finishReason(this.request.parameters, this.#endIds, token, this.generated);
    if (reason === 'stop') return reason;
    this.#matcher?.accept(token);
    if (this.#matcher?.ended === true) return 'stop';
    return reason ?? (this.sequence.length === this.sequence.maxTokens ? 'length' : undefined);
  }

  /** Why the answer cannot go on, though it is not complete: found out before the step in which it would be drawn. */
  get obstacle(): RequestError | undefined {
    try {
      this.#matcher?.mask();
      return undefined;
    } catch (error) {
      if (error instanceof TooAmbiguous) return { code: 'grammar-failed', message: error.message };
      throw error;
    }
  }

  /** Nothing that ends an answer may be drawn before the answer is complete. */
  #forbidden(): readonly number[] {
    const { parameters } = this.request;
    const early = forbiddenIds(parameters, this.#endIds, this.generated);
    if (this.#matcher === undefined) return early;
    if (!this.#matcher.complete) return [...early, ...parameters.stopIds];
    // An end token that ends nothing is no part of what the grammar allows.
    const forbidden = parameters.ignoreEos ? [...early, ...this.#endIds] : early;
    // Where nothing may follow, the grammar ends the answer, however short it is.
    return forbidden.length === 0 || isAnyLeft(this.#matcher.mask(), forbidden) ? forbidden : [];
  }
}

function isAnyLeft(mask: Uint32Array, forbidden: readonly number[]): boolean {
  const taken = new Map<number, number>();
  for (const token of forbidden) taken.set(token >>> 5, (taken.get(token >>> 5) ?? 0) | (1 << (token & 31)));
  return mask.some((word, at) => (word & ~(taken.get(at) ?? 0)) !== 0);
}

export class OpenEmbedding extends OpenRequest<EmbedRequest> {
  constructor(request: EmbedRequest) {
    const { prompt: tokens, pooling } = request;
    const pooled = new PooledStates(pooling, tokens.length);
    // Its last token gets K/V like any other, as if one more were to follow.
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
