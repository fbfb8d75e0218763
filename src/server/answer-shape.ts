// How answers look on the wire: what chat and text completions have in common, and the contract of each.

import type { TextPiece } from '../generation/choice-text.ts';
import type { TokenUsage } from '../generation/token-usage.ts';
import type { WholeChoice } from '../generation/whole-answer.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';

/** In every chunk and every whole answer. */
export interface AnswerBase {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
  /** Told to whoever asked for one. */
  readonly service_tier?: 'default';
}

export interface AnswerShape {
  /** The first chunk of a choice, where there is something to say before its text. */
  opening(index: number): object | undefined;
  piece(index: number, piece: TextPiece): object;
  finish(index: number, reason: FinishReason): object;
  /** The last chunk, without choices. */
  usage(usage: TokenUsage): object;
  whole(choices: readonly WholeChoice[], usage: TokenUsage): object;
}

export interface ShapeOptions {
  readonly base: AnswerBase;
  readonly model: ServedModel;
  /** Whether log-probabilities were asked for. */
  readonly logprobs: boolean;
  /** Chunks before the last then say that usage is still to come. */
  readonly usageComes: boolean;
}

export function usageOf({ promptTokens, cachedTokens, completionTokens }: TokenUsage): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** JSON knows no infinity; the field writes this for a probability of zero. */
export function finiteLogprob(logprob: number): number {
  return Math.max(logprob, -9999);
}

export function tokenString({ tokenizer }: ServedModel, token: number): string {
  return Buffer.from(tokenizer.tokenBytes(token)).toString('utf8');
}
