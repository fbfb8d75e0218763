// Answers on the wire: the contract that each protocol implements, and what several have in common.

import type { AnswerPiece, TokenDetail } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { Prompt } from '../../generation/context-room.ts';
import type { GenerationEvent } from '../../generation/generation-event.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { ApiError } from '../http/errors.ts';
import type { RequestTimes } from '../request/request-record.ts';

/** In every chunk and every whole answer. */
interface AnswerBase {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
  readonly service_tier?: 'default';
}

/** One message of a stream; some protocols name the kind of each. */
export interface StreamMessage {
  readonly event?: string;
  readonly data: unknown;
}

export interface ChoiceEnd {
  readonly reason: FinishReason;
  readonly calls: number;
  readonly hasOpenCall?: boolean;
  readonly stop: string | undefined;
  readonly isValid?: boolean | null;
}

/** Where the grammar allowed more than is valid. */
export function validity({ isValid }: { readonly isValid?: boolean | null | undefined }): {
  readonly schema_valid?: boolean | null;
} {
  return isValid === undefined ? {} : { schema_valid: isValid };
}

/** Made for one answer; what comes in a stream may depend on what came before. */
export interface AnswerShape {
  opening(index: number): readonly StreamMessage[];
  /** `token` is absent where text was held back and comes at the end. */
  piece(index: number, piece: AnswerPiece & { readonly token?: number }): readonly StreamMessage[];
  finish(index: number, end: ChoiceEnd): readonly StreamMessage[];
  closing(usage: TokenUsage): readonly StreamMessage[];
  failure(error: ApiError): readonly StreamMessage[];
  whole(choices: readonly WholeChoice[], usage: TokenUsage): object;
  /** Called with the whole answer before its end is sent, streamed or not. */
  settled?(choices: readonly WholeChoice[], usage: TokenUsage): Promise<void>;
  /** Called before the first event of an answer that is sent whole. */
  begun?(): void;
  /** Called with each event of an answer that is sent whole. */
  observe?(event: GenerationEvent): void;
  /** Called with the error that ended a stream early, before `failure` is called. */
  broken?(error: unknown, usage: TokenUsage): Promise<void>;
  /** Called with the error that ended an answer that would have been sent whole. */
  brokenWhole?(error: unknown, usage: TokenUsage): Promise<void>;
}

export interface ShapeOptions {
  readonly base: AnswerBase;
  /** Undefined where an upstream answers: its tokens are not known here. */
  readonly model: ServedModel | undefined;
  readonly logprobs: boolean;
  readonly usageComes: boolean;
  readonly prompts: readonly Prompt[];
  /** Of each prompt. */
  readonly parameters: readonly SamplingParameters[];
  /** Answers to each prompt. */
  readonly choices: number;
  /** Of all prompts. */
  readonly promptTokens: number;
  /** What the protocol's `edit` reported. */
  readonly edits?: object | undefined;
  promptText(prompt: number): Promise<string>;
  /** Prompt tokens that needed no compute; 0 until that is known. */
  cachedTokens(prompt: number): number;
  /** In which the answer by this number has left its prefix, once it has ended; undefined where prefixes are not saved. */
  slot(index: number): number | undefined;
  /** Ends the answer: with an ApiError, or with ClientLeft where the client has left. */
  abort(reason: Error): void;
  readonly times: () => RequestTimes;
}

export function usageOf({ promptTokens, cachedTokens, completionTokens, draftTokens }: TokenUsage): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: {
      accepted_prediction_tokens: draftTokens?.accepted ?? 0,
      rejected_prediction_tokens: draftTokens?.rejected ?? 0,
    },
  };
}

/** JSON has no infinity; other servers write this for a probability of zero. */
export function finiteLogprob(logprob: number): number {
  return Math.max(logprob, -9999);
}

export function tokenString(model: ServedModel | undefined, token: number): string {
  return Buffer.from(tokenBytes(model, token)).toString('utf8');
}

function tokenBytes(model: ServedModel | undefined, token: number): Uint8Array {
  if (model === undefined) throw new Error('an upstream reports no tokens');
  return model.tokenizer.tokenBytes(token);
}

/** A token with its log-probability and its alternatives. */
export function entryOf(
  model: ServedModel | undefined,
  { token, logprob, top }: TokenDetail,
  name = (id: number) => tokenString(model, id),
): object {
  const named = (id: number, value: number) => ({
    token: name(id),
    logprob: finiteLogprob(value),
    bytes: [...tokenBytes(model, id)],
  });
  return { ...named(token, logprob), top_logprobs: top.map((one) => named(one.token, one.logprob)) };
}

/** Log-probabilities go with the first of these; where tokens gave no text yet, with an empty one. */
export function withDetails<Item>(
  items: readonly Item[],
  details: readonly TokenDetail[],
  empty: Item,
): (readonly [Item, readonly TokenDetail[]])[] {
  if (items.length === 0) return details.length === 0 ? [] : [[empty, details]];
  return items.map((item, at) => [item, at === 0 ? details : []]);
}
