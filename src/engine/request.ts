// What the engine is asked for and what it answers: token ids in, token ids out.

import type { SamplingParameters } from '../sampling/parameters.ts';
import type { TokenLogprob } from '../sampling/sample-row.ts';
import type { Priority } from './sequence.ts';

export interface EngineRequest {
  readonly id: string;
  readonly prompt: Int32Array;
  /** How many answers to the prompt. */
  readonly choices: number;
  readonly parameters: SamplingParameters;
  readonly priority: Priority;
  /** Requests share cached prefixes only with those of the same tenant. */
  readonly tenant: string;
  /** Whose request it is: within a tier, accounts are served in turn. Default: one account for all. */
  readonly account?: string;
  /** When the request first came, in milliseconds since 1970: it keeps its age for life. */
  readonly enqueuedMs: number;
  /** Allowed tokens at every draw: bit `id % 32` of word `id / 32`. */
  readonly mask?: Uint32Array;
  /** Answers that a lost engine had begun: the tokens of each choice that is to go on. */
  readonly resumed?: readonly ResumedChoice[];
}

export interface ResumedChoice {
  readonly choice: number;
  readonly tokens: readonly number[];
}

export type FinishReason = 'stop' | 'length' | 'cancelled' | 'error';

export type RequestErrorCode =
  | 'too-long'
  | 'never-fits'
  | 'invalid'
  | 'numeric-error'
  | 'no-candidate'
  | 'draining'
  | 'engine-failed';

export interface RequestError {
  readonly code: RequestErrorCode;
  readonly message: string;
}

export interface Logprobs {
  readonly logprob: number;
  readonly top: readonly TokenLogprob[];
}

export interface TokenEvent {
  readonly kind: 'token';
  readonly id: string;
  readonly choice: number;
  readonly token: number;
  readonly logprobs?: Logprobs;
}

export interface FinishEvent {
  readonly kind: 'finish';
  readonly id: string;
  readonly choice: number;
  readonly reason: FinishReason;
  readonly error?: RequestError;
  readonly promptTokens: number;
  /** Prompt tokens that needed no compute. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
}

export type RequestEvent = TokenEvent | FinishEvent;
