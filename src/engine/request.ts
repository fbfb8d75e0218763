// What the engine is asked for and what it answers: token ids in, token ids or a vector out. One request is one sequence.

import type { GrammarTables } from '../grammar/tables.ts';
import type { StatePooling } from '../model/pooling.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { TokenLogprobs } from '../sampling/sample-row.ts';
import type { FinishReason, StopToken } from '../sampling/stop-condition.ts';
import type { ThinkingLimit } from '../sampling/thinking-budget.ts';
import type { PromptImages, PromptPictures } from './images/prompt-images.ts';
import type { Priority } from './scheduler/sequence.ts';

export type { PromptImage, PromptImages, PromptPicture, PromptPictures } from './images/prompt-images.ts';
export type { Priority } from './scheduler/sequence.ts';

interface RequestBase {
  readonly id: string;
  readonly prompt: Int32Array;
  /** Default: none. */
  readonly images?: PromptImages | undefined;
  /** In place of images where another machine prepares them, which an engine does not. Default: none. */
  readonly pictures?: PromptPictures | undefined;
  readonly priority: Priority;
  /** Requests share cached prefixes only with those of the same salt. */
  readonly salt: string;
  /** Which of the model's adapters it uses. Default none. */
  readonly adapter?: number | undefined;
  /** The slot that it leaves its prefix in, where prefixes are saved. Default: the lowest that no running sequence has. */
  readonly slot?: number | undefined;
  /** Who asks: within a tier, the account goes first that has had least work. */
  readonly account: string;
  /** The part of the KV blocks, above 0 and up to 1, that the account's sequences may hold together. Default: no limit. */
  readonly kvShare?: number | undefined;
  /** Its place among those of its account that wait, in seconds of waiting; lower goes first. Default 0. */
  readonly order?: number | undefined;
  /** When the request first came, in milliseconds since 1970: it keeps its age for life. */
  readonly enqueuedMs: number;
  /** W3C's headers, where a trace of it is taken: workers of a fleet have spans of their own. */
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string | undefined } | undefined;
}

export interface AnswerRequest extends RequestBase {
  readonly pooling?: undefined;
  /** Tokens of the answer that exist already: an engine that was lost had sampled them. Default: none. */
  readonly answer?: readonly number[];
  /** The how manieth time its client comes back to it, 0 where it may: a worker that still has tokens of it gives them again. Default: never. */
  readonly takeover?: number;
  /** Which of several answers to the same prompt this is: each samples its own tokens. Default 0. */
  readonly choice?: number;
  readonly parameters: SamplingParameters;
  /** What the answer will probably be: draft tokens begin with it. */
  readonly expected?: Int32Array;
  /** Allowed tokens at every sample: bit `id % 32` of word `id / 32`. */
  readonly mask?: Uint32Array;
  readonly grammar?: AnswerGrammar;
  /** How long it may reason. Default: no limit. */
  readonly thinking?: ThinkingLimit;
}

/** What the answer may be. Its tokens alone say how far it has come, so that another engine can go on with it. */
export interface AnswerGrammar {
  readonly tables: GrammarTables;
  /** The answer goes on with the prompt's text: a space before its first word is its own. */
  readonly continues: boolean;
}

/** Ends when its prompt is computed, with one vector of its states. */
export interface EmbedRequest extends RequestBase {
  readonly pooling: StatePooling;
  readonly answer?: undefined;
  readonly takeover?: undefined;
}

/** Ends when its prompt is computed, with how likely each of its tokens was. */
export interface ScoreRequest extends RequestBase {
  /** How many alternatives are reported with each token. */
  readonly scoring: number;
  readonly pooling?: undefined;
  readonly answer?: undefined;
  readonly takeover?: undefined;
}

export type EngineRequest = AnswerRequest | EmbedRequest | ScoreRequest;

export function isAnswered(request: EngineRequest): request is AnswerRequest {
  return 'parameters' in request;
}

/** Why a request ended: its answer is complete, or there will be no more of it. */
export type EndReason = FinishReason | 'cancelled' | 'error';

export type RequestErrorCode =
  | 'too-long'
  | 'never-fits'
  /** It would with fewer tokens of answer. */
  | 'answer-never-fits'
  | 'invalid'
  /** A picture, which `parameter` names, cannot be read. */
  | 'unreadable-picture'
  | 'numeric-error'
  | 'no-candidate'
  | 'grammar-failed'
  | 'draining'
  /** Its client has come back to it by another connection. */
  | 'superseded'
  /** No worker of the fleet takes it. */
  | 'no-worker'
  | 'engine-failed';

export interface RequestError {
  readonly code: RequestErrorCode;
  readonly message: string;
  /** What is to blame, as the client calls it. */
  readonly parameter?: string | undefined;
}

export type Logprobs = TokenLogprobs;

export interface TokenEvent {
  readonly kind: 'token';
  readonly id: string;
  readonly token: number;
  readonly logprobs?: Logprobs;
  /** Where it ends the answer and is no part of its text. */
  readonly stop?: StopToken;
}

export interface DraftTokenCounts {
  readonly accepted: number;
  readonly rejected: number;
}

export interface FinishEvent {
  readonly kind: 'finish';
  readonly id: string;
  readonly reason: EndReason;
  readonly error?: RequestError;
  /** Prompt tokens that were computed, or needed no compute: all of them once the answer has begun. */
  readonly promptTokens: number;
  /** Of them, those that needed no compute. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  /** Tokens that were drafted and computed before it was known whether they come. Absent where none were sought. */
  readonly draftTokens?: DraftTokenCounts;
  /** The slot that it left its prefix in, where prefixes are saved and it has run. */
  readonly slot?: number;
  /** Of a request that was embedded to its end. */
  readonly vector?: Float32Array;
  /** Of a request that was scored to its end: of all tokens but the first. */
  readonly scores?: readonly Logprobs[];
}

export type RequestEvent = TokenEvent | FinishEvent;
