// One answer being generated: its sequence, and what sampling must know of it.

import type { SampleRow } from '../sampling/sample-row.ts';
import { finishReason, forbiddenIds } from '../sampling/stop-condition.ts';
import { needsCounts, TokenCounts } from '../sampling/token-counts.ts';
import type { EngineRequest, FinishEvent, FinishReason, RequestError } from './request.ts';
import type { Sequence } from './sequence.ts';

export class Choice {
  readonly request: EngineRequest;
  readonly index: number;
  readonly sequence: Sequence;
  readonly #endIds: readonly number[];
  readonly #counts: TokenCounts | undefined;

  /** `answer` holds the tokens that were accepted before, where a request is resumed. */
  constructor(
    request: EngineRequest,
    index: number,
    sequence: Sequence,
    endIds: readonly number[],
    answer: readonly number[] = [],
  ) {
    this.request = request;
    this.index = index;
    this.sequence = sequence;
    this.#endIds = endIds;
    if (!needsCounts(request.parameters)) return;
    this.#counts = new TokenCounts(request.prompt, answer);
  }

  get generated(): number {
    return this.sequence.length - this.sequence.promptLength;
  }

  /** Further choices that start from the same logits as this one: those of its request, at the first draw. */
  siblings(): number[] {
    const { choices, resumed } = this.request;
    if (this.index > 0 || this.generated > 0 || resumed !== undefined) return [];
    return Array.from({ length: choices - 1 }, (_, n) => n + 1);
  }

  /** How the next token is to be drawn, for this choice or for a sibling that starts from the same logits. */
  sampleRow(choice = this.index): SampleRow {
    const { parameters, mask } = this.request;
    return {
      parameters,
      counts: this.#counts,
      position: this.sequence.length,
      choice,
      forbidden: forbiddenIds(parameters, this.#endIds, this.generated),
      mask,
    };
  }

  /** Takes note of the token that the sequence was just given; tells whether it was the last. */
  accept(token: number): FinishReason | undefined {
    this.#counts?.addGenerated(token);
    return this.reasonToEnd(token, this.generated);
  }

  /** Why an answer of `generated` tokens ends with `token`, if it does. */
  reasonToEnd(token: number, generated: number): FinishReason | undefined {
    const { promptLength, maxTokens } = this.sequence;
    const reason = finishReason(this.request.parameters, this.#endIds, token, generated);
    return reason ?? (promptLength + generated === maxTokens ? 'length' : undefined);
  }

  finished(reason: FinishReason, error?: RequestError): FinishEvent {
    return {
      kind: 'finish',
      id: this.request.id,
      choice: this.index,
      reason,
      ...(error === undefined ? {} : { error }),
      promptTokens: this.sequence.promptLength,
      cachedTokens: this.sequence.cachedTokens,
      generatedTokens: this.generated,
    };
  }
}
