// How answers look on the wire: what chat and text completions have in common, and the contract of each.

import type { ServedModel } from '../pool/served-model.ts';
import type { TextPiece, TokenDetail } from './choice-text.ts';
import type { AnswerReason, RunUsage } from './completion-run.ts';

/** In every chunk and every whole answer. */
export interface AnswerBase {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export interface WholeChoice {
  readonly index: number;
  readonly text: string;
  readonly details: readonly TokenDetail[];
  readonly reason: AnswerReason;
}

export interface AnswerShape {
  /** The first chunk of a choice, where there is something to say before its text. */
  opening(index: number): object | undefined;
  piece(index: number, piece: TextPiece): object;
  finish(index: number, reason: AnswerReason): object;
  /** The last chunk, without choices. */
  usage(usage: RunUsage): object;
  whole(choices: readonly WholeChoice[], usage: RunUsage): object;
}

export interface ShapeOptions {
  readonly base: AnswerBase;
  readonly model: ServedModel;
  /** Whether log-probabilities were asked for. */
  readonly logprobs: boolean;
  /** Chunks before the last then say that usage is still to come. */
  readonly usageComes: boolean;
}

export function usageOf({ promptTokens, cachedTokens, completionTokens }: RunUsage): object {
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
