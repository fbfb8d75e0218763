// Responses on the wire: the object `response`, and the events of a stream.

import type { FastifyBaseLogger } from 'fastify';
import type { AnswerPiece } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { GenerationEvent } from '../../generation/generation-event.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import { type ApiError, ClientLeft, toApiError } from '../http/errors.ts';
import {
  type AnswerShape,
  type ChoiceEnd,
  entryOf,
  type ShapeOptions,
  type StreamMessage,
  validity,
} from '../jobs/answer-shape.ts';
import type { Conversation } from './conversation.ts';
import type { KeptResponses, RunningResponses } from './kept-responses.ts';
import { type OutputEvent, OutputItems } from './output-items.ts';
import type { ResponsesBody } from './schema.ts';
import { knownTools, shownTools } from './tools.ts';

/** Where a response is stored, and found while it runs. */
interface Keeping {
  readonly conversation: Conversation;
  readonly keyId: string;
  readonly kept: KeptResponses;
  readonly running: RunningResponses;
  readonly log: Pick<FastifyBaseLogger, 'error'>;
}

type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

export class ResponseShape implements AnswerShape {
  readonly #options: ShapeOptions;
  readonly #given: ResponsesBody;
  readonly #keeping: Keeping;
  readonly #output: OutputItems;
  #status: Status = 'in_progress';
  #reason: FinishReason = 'stop';
  #isValid: boolean | null | undefined;
  #usage: TokenUsage | undefined;
  #endedSeconds = 0;
  #error: ApiError | undefined;
  #stored: boolean;
  #sequence = 0;
  readonly #whenEnded: ((response: object) => void)[] = [];

  constructor(options: ShapeOptions, given: ResponsesBody, keeping: Keeping) {
    this.#options = options;
    this.#given = given;
    this.#keeping = keeping;
    this.#stored = given.store !== false && keeping.kept.keeps;
    this.#output = new OutputItems((detail) => entryOf(options.model, detail), knownTools(given.tools ?? []));
  }

  opening(): StreamMessage[] {
    const { keyId, running } = this.#keeping;
    running.add(this.#id, {
      keyId,
      kept: this.#stored,
      now: () => this.#response(),
      cancel: () => this.#cancel(),
    });
    return [this.#lifeEvent('response.created'), this.#lifeEvent('response.in_progress')];
  }

  piece(_index: number, piece: AnswerPiece): StreamMessage[] {
    return this.#messages(this.#output.push(piece));
  }

  finish(_index: number, { reason, isValid }: ChoiceEnd): StreamMessage[] {
    this.#reason = reason;
    this.#isValid = isValid;
    return this.#messages(this.#output.end(reason === 'length' ? 'incomplete' : 'completed'));
  }

  observe(event: GenerationEvent): void {
    if (event.kind === 'scores') return;
    if (event.kind === 'finish') this.finish(event.index, event);
    else this.#output.push(event);
  }

  async settled(_choices: readonly WholeChoice[], usage: TokenUsage): Promise<void> {
    await this.#end(this.#reason === 'length' ? 'incomplete' : 'completed', usage);
  }

  closing(): StreamMessage[] {
    return [this.#lifeEvent(`response.${this.#status}`)];
  }

  async broken(error: unknown, usage: TokenUsage): Promise<void> {
    if (!(error instanceof ClientLeft)) this.#error = toApiError(error);
    this.#output.end('incomplete');
    await this.#end(this.#error === undefined ? 'cancelled' : 'failed', usage);
  }

  failure(error: ApiError): StreamMessage[] {
    // The API has no event for a cancelled response.
    if (this.#status === 'cancelled') return [this.#lifeEvent('response.incomplete')];
    const { code = null, message, param = null } = error;
    return [...this.#messages([{ type: 'error', code, message, param }]), this.#lifeEvent('response.failed')];
  }

  whole(): object {
    return this.#response();
  }

  get #id(): string {
    return this.#options.base.id;
  }

  async #end(status: Status, usage: TokenUsage): Promise<void> {
    const { keyId, kept, conversation, running, log } = this.#keeping;
    this.#status = status;
    this.#usage = usage;
    this.#endedSeconds = Math.floor(Date.now() / 1000);
    if (this.#stored) {
      const { output, ...body } = this.#response();
      const previousId = this.#given.previous_response_id;
      const response = { id: this.#id, previousId, body, input: conversation.given, output };
      this.#stored = await kept.save(keyId, response, log);
    }
    running.remove(this.#id);
    for (const resolve of this.#whenEnded.splice(0)) resolve(this.#response());
  }

  #cancel(): Promise<object> {
    const ended = new Promise<object>((resolve) => this.#whenEnded.push(resolve));
    this.#options.abort(new ClientLeft());
    return ended;
  }

  #lifeEvent(type: string): StreamMessage {
    return this.#message({ type, response: this.#response() });
  }

  #messages(events: readonly OutputEvent[]): StreamMessage[] {
    return events.map((event) => this.#message(event));
  }

  #message(event: OutputEvent): StreamMessage {
    return { event: event.type, data: { ...event, sequence_number: this.#sequence++ } };
  }

  #response() {
    const { base } = this.#options;
    const given = this.#given;
    const status = this.#status;
    return {
      id: base.id,
      object: 'response',
      created_at: base.created,
      status,
      ...(status === 'completed' ? { completed_at: this.#endedSeconds } : {}),
      background: false,
      error: this.#error === undefined ? null : errorOf(this.#error),
      incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
      instructions: given.instructions ?? null,
      max_output_tokens: given.max_output_tokens ?? null,
      max_tool_calls: given.max_tool_calls ?? null,
      model: base.model,
      output: this.#output.items,
      parallel_tool_calls: given.parallel_tool_calls ?? true,
      previous_response_id: given.previous_response_id ?? null,
      prompt_cache_key: given.prompt_cache_key ?? null,
      reasoning: { effort: given.reasoning?.effort ?? null, summary: given.reasoning?.summary ?? null },
      safety_identifier: given.safety_identifier ?? null,
      service_tier: 'default',
      store: this.#stored,
      temperature: given.temperature ?? 1,
      text: { format: given.text?.format ?? { type: 'text' }, verbosity: 'medium' },
      tool_choice: given.tool_choice ?? 'auto',
      tools: shownTools(given.tools ?? []),
      top_logprobs: given.top_logprobs ?? 0,
      top_p: given.top_p ?? 1,
      truncation: given.truncation ?? 'disabled',
      usage: this.#usage === undefined ? null : usageOf(this.#usage, this.#output.reasoningTokens),
      user: given.user ?? null,
      metadata: given.metadata ?? {},
      ...validity({ isValid: this.#isValid }),
    };
  }
}

function usageOf(
  { promptTokens, cachedTokens, completionTokens }: TokenUsage,
  reasoningTokens: number,
): object {
  return {
    input_tokens: promptTokens,
    // Prefixes are always cached, and writing them is not accounted.
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}

/** The object has only a few codes; the event `error` has the server's own. */
function errorOf({ status, message }: ApiError): object {
  if (status === 429) return { code: 'rate_limit_exceeded', message };
  return { code: status < 500 && status !== 408 ? 'invalid_prompt' : 'server_error', message };
}
