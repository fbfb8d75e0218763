// What is known of one request when it is over.

export type FailureKind = 'rate-limited' | 'http' | 'timeout' | 'connection' | 'stream';

export type Outcome =
  | { readonly kind: 'complete' }
  | {
      readonly kind: 'failed';
      readonly failure: FailureKind;
      /** Where the server answered at all. */
      readonly status: number | undefined;
      readonly message: string;
      /** What the server asks for. */
      readonly retryAfterSeconds: number | undefined;
    }
  /** The run ended before it did. */
  | { readonly kind: 'cut-off' };

/** As the server counts. */
export interface Usage {
  readonly promptTokens: number;
  /** Undefined where the server does not tell. */
  readonly cachedTokens: number | undefined;
  readonly outputTokens: number;
}

/** One answer as it was received. Times by one clock, in milliseconds. */
export interface StreamedAnswer {
  readonly sentMs: number;
  readonly endMs: number;
  /** When each chunk with output came. */
  readonly chunkMs: readonly number[];
  /** Undefined where the server sent none. */
  readonly usage: Usage | undefined;
  readonly finishReason: string | undefined;
  readonly outcome: Outcome;
}

/** Times count from the start of the run. */
export interface RequestRecord extends StreamedAnswer {
  readonly index: number;
  readonly keyName: string;
  /** When it was to be sent. */
  readonly arrivalMs: number;
  readonly wantedPromptTokens: number;
  readonly wantedOutputTokens: number;
}
