// What an answer has cost so far, in tokens.

import type { DraftTokenCounts } from '../engine/request.ts';

export interface TokenUsage {
  /** Those that were computed. A prompt counts once, however many answers it gets. */
  readonly promptTokens: number;
  /** Of them, those that needed no compute. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Draft tokens that were computed: part of the answer, or not. Absent where none were sought. */
  readonly draftTokens?: DraftTokenCounts | undefined;
  /** @deprecated The former name of `draftTokens`. */
  readonly guesses?: DraftTokenCounts | undefined;
}
