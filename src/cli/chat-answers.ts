// The contract of what answers in a chat: a running server, or a model in this process.

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface AnswerUsage {
  readonly promptTokens: number;
  /** Of them, those that needed no compute. */
  readonly cachedTokens: number;
  readonly answerTokens: number;
}

export type AnswerEvent =
  /** What the model thinks before it answers. */
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly reason: string; readonly usage: AnswerUsage | undefined };

export interface ChatAnswers {
  /** Who answers, for people. */
  readonly name: string;
  /** Ends early, without an `end`, when the signal is aborted. Throws UsageError for what the user can mend. */
  answer(messages: readonly ChatMessage[], signal: AbortSignal): AsyncGenerator<AnswerEvent, void, void>;
  close(): Promise<void>;
}

export interface ChatSampling {
  readonly temperature?: number;
  readonly maxTokens?: number;
  readonly seed?: number;
}
