// What an answer has cost so far, in tokens.

import type { DraftTokenCounts } from '../engine/request.ts';

export interface TokenUsage {
  /** Those that were computed. A prompt counts once, however many answers it gets. */
  readonly promptTokens: number;
  /** Of them, those that needed no compute. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Tokens that were drafted and computed, those of the answer and those that were not; none where nobody drafted. */
  readonly draftTokens?: DraftTokenCounts | undefined;
}
