// What an answer has cost so far, in tokens.

export interface TokenUsage {
  /** A prompt counts once, however many answers it gets. */
  readonly promptTokens: number;
  /** Of them, those that needed no compute. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
}
