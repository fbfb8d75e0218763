// The arithmetic of latency, from the times of one request.
//   TTFT  from sending to the first output
//   TPOT  (E2EL - TTFT) / (output tokens - 1)
//   ITL   the gaps between chunks of output
//   E2EL  from sending to the end of the answer

import type { RequestRecord, StreamedAnswer } from './request-record.ts';

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
