// Where an answer comes from: an engine here, or another server. Every protocol writes what it gives.

import type { DraftTokenCounts } from '../engine/request.ts';
import type { GenerationEvent } from './generation-event.ts';

export interface AnswerSource {
  /** An early return or an abort ends what still runs. */
  events(): AsyncGenerator<GenerationEvent, void, void>;
  /** Set where it takes a while until it is known whether there will be an answer; resolves when it is. */
  readonly accepted?: Promise<void> | undefined;
  /** As far as known; final once the events have ended. */
  readonly usage: TokenUsage;
  /** Tokens of the longest answer. */
  readonly longestAnswer: number;
  /** Of one prompt; 0 until it is known. */
  cachedTokensOf(prompt: number): number;
  /** In which the answer by this number has left its prefix, once that is known; undefined where prefixes are not saved. */
  slotOf(index: number): number | undefined;
  /** Set where it must still be reported how much was computed; resolves when it has. */
  readonly released: Promise<void> | undefined;
}

export interface GenerationObserver {
  submitted(requestId: string): void;
  firstToken(): void;
  token(index: number): void;
}

export interface TokenUsage {
  /** Computed prompt tokens. A prompt counts once, however many answers it has. */
  readonly promptTokens: number;
  /** The part of promptTokens found in the cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Absent where nothing was drafted. */
  readonly draftTokens?: DraftTokenCounts | undefined;
  /** @deprecated The former name of `draftTokens`. */
  readonly guesses?: DraftTokenCounts | undefined;
}
