// One request of a load when it is over: what is known of it, and the arithmetic of latency.
//   TTFT  from sending to the first output
//   TPOT  (E2EL - TTFT) / (output tokens - 1)
//   ITL   the gaps between chunks of output
//   E2EL  from sending to the end of the answer

export type FailureKind = 'rate-limited' | 'http' | 'timeout' | 'connection' | 'stream';

export type Outcome =
  | { readonly kind: 'complete' }
  | {
      readonly kind: 'failed';
      readonly failure: FailureKind;
      readonly status: number | undefined;
      readonly message: string;
      readonly retryAfterSeconds: number | undefined;
    }
  /** The run ended before the request did. */
  | { readonly kind: 'cut-off' };

export interface Usage {
  readonly promptTokens: number;
  /** Undefined where the server does not report it. */
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

export interface RequestMeasures {
  /** Undefined where nothing was said. */
  readonly ttftMs: number | undefined;
  /** Undefined with fewer than two tokens. */
  readonly tpotMs: number | undefined;
  readonly gapsMs: readonly number[];
  readonly e2elMs: number;
  readonly outputTokens: number;
}

export function measureRequest(answer: StreamedAnswer): RequestMeasures {
  const { sentMs, endMs, chunkMs } = answer;
  const [firstMs] = chunkMs;
  const ttftMs = firstMs === undefined ? undefined : firstMs - sentMs;
  const e2elMs = endMs - sentMs;
  const outputTokens = outputTokensOf(answer);
  return {
    ttftMs,
    tpotMs: ttftMs === undefined || outputTokens < 2 ? undefined : (e2elMs - ttftMs) / (outputTokens - 1),
    gapsMs: chunkMs.slice(1).map((ms, n) => ms - (chunkMs[n] as number)),
    e2elMs,
    outputTokens,
  };
}

/** As the server counted; where it did not, a chunk counts as a token. */
export function outputTokensOf({ usage, chunkMs }: StreamedAnswer): number {
  return usage?.outputTokens ?? chunkMs.length;
}

export function isComplete({ outcome }: RequestRecord): boolean {
  return outcome.kind === 'complete';
}

const limitNames = ['ttft', 'tpot', 'e2el'] as const;
type LimitName = (typeof limitNames)[number];

/** In milliseconds, at most. */
export type GoodputLimits = Readonly<Partial<Record<LimitName, number>>>;

export const GOODPUT_FORM = 'ttft:500,tpot:50,e2el:5000, or some of them, in milliseconds';

/** Undefined where the text is not of the form. */
export function parseGoodput(text: string): GoodputLimits | undefined {
  const limits: Partial<Record<LimitName, number>> = {};
  for (const part of text.split(',')) {
    const [, name, ms] = /^\s*(\w+):(\d+(?:\.\d+)?)\s*$/.exec(part) ?? [];
    const limit = limitNames.find((one) => one === name);
    if (limit === undefined || limits[limit] !== undefined) return undefined;
    limits[limit] = Number(ms);
  }
  return limits;
}

/** An answer without output has no first token in time; one of a single token has no time per further token to miss. */
export function keepsLimits({ ttftMs, tpotMs, e2elMs }: RequestMeasures, limits: GoodputLimits): boolean {
  const { ttft, tpot, e2el } = limits;
  if (ttft !== undefined && (ttftMs === undefined || ttftMs > ttft)) return false;
  if (tpot !== undefined && tpotMs !== undefined && tpotMs > tpot) return false;
  return e2el === undefined || e2elMs <= e2el;
}
