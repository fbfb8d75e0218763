// `timings`: how many tokens an answer took, and how long. Times are those of the whole request, also where it has several answers.

import type { DraftTokenCounts } from '../../engine/request.ts';
import type { RequestTimes } from '../request/request-record.ts';

interface Timed {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly predicted: number;
  readonly times: RequestTimes;
  readonly draftTokens?: DraftTokenCounts | undefined;
}

export function timingsOf({ promptTokens, cachedTokens, predicted, times, draftTokens }: Timed): object {
  const computed = promptTokens - cachedTokens;
  const { promptMs, answerMs } = times;
  // The first token comes with the prompt's last step.
  const steps = Math.max(0, predicted - 1);
  return {
    cache_n: cachedTokens,
    prompt_n: computed,
    prompt_ms: promptMs,
    prompt_per_token_ms: ratio(promptMs, computed),
    prompt_per_second: ratio(1000 * computed, promptMs),
    predicted_n: predicted,
    predicted_ms: answerMs,
    predicted_per_token_ms: ratio(answerMs, steps),
    predicted_per_second: steps === 0 ? 0 : ratio(1000 * steps, answerMs),
    ...(draftTokens === undefined
      ? {}
      : { draft_n: draftTokens.accepted + draftTokens.rejected, draft_n_accepted: draftTokens.accepted }),
  };
}

/** JSON has no infinity. */
function ratio(value: number, by: number): number {
  return by > 0 ? value / by : 0;
}
