// Responses on the wire: the object `response`, and the events of a stream.

import type { FastifyBaseLogger } from 'fastify';
import type { AnswerPiece } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { GenerationEvent } from '../../generation/generation-event.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { NewResponse } from '../../store/response-store.ts';
import { type ApiError, ClientLeft, kindOf, toApiError } from '../http/errors.ts';
import {
  type AnswerShape,
  type ChoiceEnd,
  entryOf,
  type ShapeOptions,
  type StreamMessage,
} from '../jobs/answer-shape.ts';
import type { Conversation } from './conversation.ts';
import type { ConversationItem } from './items.ts';
import type { KeptResponses, RunningResponses } from './kept-responses.ts';
import { idsOf, type OutputEvent, OutputItems } from './output-items.ts';
import { type ResponseStatus, responseError, responseObject } from './response-object.ts';
import type { ResponsesBody } from './schema.ts';
import { knownTools } from './tools.ts';

/** Where a response is stored, and found while it runs. */
interface Keeping {
  readonly conversation: Conversation;
  readonly keyId: string;
  readonly kept: KeptResponses;
  readonly running: RunningResponses;
  readonly log: Pick<FastifyBaseLogger, 'error'>;
  readonly background?: Background | undefined;
}

/** A response that no client waits for, as its answer is computed. */
export interface Background {
  readonly createdSeconds: number;
  /** How many events came before those of the answer. */
  readonly events: number;
  /** From now on what is known of it is known here. */
  began(now: () => object): void;
  /** Takes events for whoever streams them. */
  tell(messages: readonly StreamMessage[]): void;
  save(response: NewResponse<ConversationItem>): Promise<void>;
}

export class ResponseShape implements AnswerShape {
  readonly #options: ShapeOptions;
  readonly #given: ResponsesBody;
  readonly #keeping: Keeping;
  readonly #output: OutputItems;
  #status: ResponseStatus = 'in_progress';
  #reason: FinishReason = 'stop';
  #isValid: boolean | null | undefined;
  #usage: TokenUsage | undefined;
  #endedSeconds = 0;
  #error: ApiError | undefined;
  #stored: boolean;
  #sequence: number;
  readonly #whenEnded: ((response: object) => void)[] = [];

  constructor(options: ShapeOptions, given: ResponsesBody, keeping: Keeping) {
    this.#options = options;
    this.#given = given;
    this.#keeping = keeping;
    this.#stored = given.store !== false && keeping.kept.keeps;
    const { background } = keeping;
    this.#sequence = background?.events ?? 0;
    this.#output = new OutputItems(
      (detail) => entryOf(options.model, detail),
      knownTools(given.tools ?? []),
      background && idsOf(options.base.id),
    );
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

  begun(): void {
    const { background } = this.#keeping;
    if (background === undefined) return;
    background.began(() => this.#response());
    background.tell([this.#lifeEvent('response.in_progress')]);
  }

  observe(event: GenerationEvent): void {
    if (event.kind === 'scores') return;
    const messages =
      event.kind === 'finish' ? this.finish(event.index, event) : this.piece(event.index, event);
    this.#keeping.background?.tell(messages);
  }

  async settled(_choices: readonly WholeChoice[], usage: TokenUsage): Promise<void> {
    await this.#end(this.#reason === 'length' ? 'incomplete' : 'completed', usage);
    this.#keeping.background?.tell(this.closing());
  }

  /** Whoever asked for a whole answer is sent the error, but nobody waits for one in the background. */
  async brokenWhole(error: unknown, usage: TokenUsage): Promise<void> {
    const { background } = this.#keeping;
    // It goes on after the restart.
    if (background === undefined || kindOf(error) === 'shutting_down') return;
    // It has ended, and could not be stored.
    if (this.#status !== 'in_progress') return;
    await this.broken(error, usage);
    background.tell(this.failure(toApiError(error)));
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

  async #end(status: ResponseStatus, usage: TokenUsage): Promise<void> {
    const { keyId, kept, conversation, running, log, background } = this.#keeping;
    this.#status = status;
    this.#usage = usage;
    this.#endedSeconds = Math.floor(Date.now() / 1000);
    if (this.#stored) {
      const { output, ...body } = this.#response();
      const previousId = this.#given.previous_response_id;
      const response = { id: this.#id, previousId, body, input: conversation.given, output };
      if (background !== undefined) await background.save(response);
      else this.#stored = await kept.save(keyId, response, log);
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
    return responseObject(this.#given, {
      id: base.id,
      createdSeconds: this.#keeping.background?.createdSeconds ?? base.created,
      model: base.model,
      status: this.#status,
      endedSeconds: this.#endedSeconds,
      error: this.#error === undefined ? null : responseError(this.#error),
      output: this.#output.items,
      stored: this.#stored,
      usage:
        this.#usage === undefined ? null : { ...this.#usage, reasoningTokens: this.#output.reasoningTokens },
      isValid: this.#isValid,
    });
  }
}
