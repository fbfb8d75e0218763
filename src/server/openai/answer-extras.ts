// What comes back with an answer beside OpenAI's fields: token ids and prompt_logprobs as in vLLM, timings and the prompt as in
// llama-server.

import type { AnswerPiece } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { GenerationEvent } from '../../generation/generation-event.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { type ShapeOptions, tokenString } from '../jobs/answer-shape.ts';
import { timingsOf } from '../jobs/timings.ts';
import { PromptLogprobs } from './prompt-logprobs.ts';

interface ExtrasBody {
  readonly prompt_logprobs?: number | undefined;
  readonly return_token_ids?: boolean | undefined;
  readonly timings_per_token?: boolean | undefined;
  readonly verbose?: boolean | undefined;
  readonly n?: number | undefined;
}

/** What tokens are called in log-probabilities. */
export function tokenNames(
  model: ServedModel | undefined,
  { return_tokens_as_token_ids: asIds }: { readonly return_tokens_as_token_ids?: boolean | undefined },
): (token: number) => string {
  return asIds === true ? (token) => `token_id:${token}` : (token) => tokenString(model, token);
}

export class AnswerExtras {
  readonly #options: ShapeOptions;
  readonly #body: ExtrasBody;
  readonly #logprobs: PromptLogprobs;
  /** Of each choice, tokens that no chunk has named yet; empty where chunks name none. */
  readonly #unsent = new Map<number, number[]>();
  #tokens = 0;
  #verbose: object = {};

  constructor(options: ShapeOptions, body: ExtrasBody) {
    this.#options = options;
    this.#body = body;
    this.#logprobs = new PromptLogprobs(options.model, body.prompt_logprobs);
  }

  /** Of an answer that is sent whole. */
  observe(event: GenerationEvent): void {
    this.#logprobs.observe(event);
    if (event.kind === 'piece' && this.#isToken(event.token)) this.#tokens++;
  }

  /** Of one that is streamed. */
  stream(index: number, { token }: AnswerPiece & { readonly token?: number }): void {
    if (this.#isToken(token)) this.#tokens++;
    if (token === undefined || this.#body.return_token_ids !== true) return;
    const unsent = this.#unsent.get(index);
    if (unsent === undefined) this.#unsent.set(index, [token]);
    else unsent.push(token);
  }

  /** Until an upstream reports its usage, a piece of its answer counts as one. */
  #isToken(token: number | undefined): boolean {
    return token !== undefined || this.#options.model === undefined;
  }

  /** For the next chunk of a choice. */
  ofChunk(index: number): object {
    if (this.#body.return_token_ids !== true) return {};
    const ids = this.#unsent.get(index) ?? [];
    this.#unsent.delete(index);
    return { token_ids: ids };
  }

  ofTokens({ tokens }: WholeChoice): object {
    return this.#body.return_token_ids === true ? { token_ids: tokens } : {};
  }

  /** Of the prompt that a choice answers. */
  ofScores(index: number): object {
    return this.#logprobs.of(this.#promptOf(index));
  }

  /** Of the prompt that a choice answers. */
  ofPrompt(index: number): object {
    const ids = this.#options.prompts[this.#promptOf(index)]?.ids;
    return this.#body.return_token_ids === true && ids !== undefined ? { prompt_token_ids: [...ids] } : {};
  }

  /** Of the only prompt of a chat. */
  ofChat(): object {
    return { ...this.ofPrompt(0), ...this.#logprobs.of(0) };
  }

  #promptOf(index: number): number {
    return Math.floor(index / (this.#body.n ?? 1));
  }

  /** Counts until now; without the usage, of a stream that has begun. */
  timings(usage?: TokenUsage): object {
    if (usage === undefined && (this.#tokens === 0 || this.#body.timings_per_token !== true)) return {};
    const { promptTokens, times, model } = this.#options;
    const { cachedTokens = 0, draftTokens } = usage ?? {};
    // An upstream counts for itself: its tokens do not come one by one.
    const remote = model === undefined && usage;
    const counted = remote
      ? { promptTokens: remote.promptTokens, predicted: remote.completionTokens }
      : { promptTokens, predicted: this.#tokens };
    return { timings: timingsOf({ ...counted, cachedTokens, draftTokens, times: times() }) };
  }

  /** Must be called before `ofEnd`. */
  async settle(): Promise<void> {
    if (this.#body.verbose === true) {
      this.#verbose = { __verbose: { prompt: await this.#options.promptText(0) } };
    }
  }

  /** With the whole answer, or with the last chunk of a stream. */
  ofEnd(usage: TokenUsage): object {
    return { ...this.timings(usage), ...this.#verbose };
  }

  /** Whether a stream ends with a chunk that has no choice. */
  get hasLastChunk(): boolean {
    return this.#options.usageComes || this.#body.verbose === true;
  }
}
