// What a step samples: which rows, what came of them, and which tokens are part of an answer.

import type { Backend, StepResult } from '../compute/backend.ts';
import type { SampleResult, SampleRow } from '../sampling/sample-row.ts';
import type { OpenAnswer } from './open-request.ts';
import type { OpenRequests } from './open-requests.ts';
import type { EndReason, RequestError, RequestEvent } from './request.ts';
import { samplingError } from './request-errors.ts';
import type { Draft } from './scheduler/draft.ts';
import type { StepPlan } from './scheduler/step-plan.ts';

/** A request that samples in the step, and how: the next token, and one after each draft token. */
interface Sampling {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly rows: readonly SampleRow[];
}

/** What was sampled for it; nothing where it ended during the step. */
interface Sample extends Sampling {
  readonly results: readonly SampleResult[];
}

/** What of that is part of the answer. */
export interface AcceptedTokens {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly tokens: readonly number[];
  readonly events: readonly RequestEvent[];
  readonly end: { readonly reason: EndReason; readonly error?: RequestError } | undefined;
}

/** What is to be sampled, for each item that samples, in order. */
export function samplingOf({ items }: StepPlan, requests: OpenRequests): Sampling[] {
  return items
    .filter(({ samples }) => samples)
    .map(({ sequence, draft }) => {
      const open = requests.of(sequence) as OpenAnswer;
      return { open, draft, rows: open.sampleRows(draft) };
    });
}

/** Samples for those that are still open. */
export function sampleStep(
  sampling: readonly Sampling[],
  { logits, sampled }: StepResult,
  requests: OpenRequests,
  backend: Pick<Backend, 'sampleRows'>,
  vocabSize: number,
): Sample[] {
  const isOpen = ({ open }: Sampling) => requests.of(open.sequence) !== undefined;
  const allRows = () => sampling.flatMap(({ rows }) => rows);
  const whole =
    sampled ?? (sampling.every(isOpen) ? backend.sampleRows(logits, vocabSize, allRows()) : undefined);
  let first = 0;
  return sampling.map((each) => {
    const [from, to] = [first, first + each.rows.length];
    first = to;
    if (!isOpen(each)) return { ...each, results: [] };
    const results =
      whole?.slice(from, to) ??
      backend.sampleRows(logits.subarray(from * vocabSize, to * vocabSize), vocabSize, each.rows);
    return { ...each, results };
  });
}

/** Up to the first draft token that is rejected, or the answer's end. */
export function acceptTokens({ open, draft, results }: Sample): AcceptedTokens {
  const tokens: number[] = [];
  const events: RequestEvent[] = [];
  const { id } = open.request;
  for (const [i, result] of results.entries()) {
    if (!result.ok) {
      return { open, draft, tokens, events, end: { reason: 'error', error: samplingError(result.error) } };
    }
    const { token, logprobs } = result;
    tokens.push(token);
    const last = open.accept(result, tokens.length);
    const stop = last?.stop;
    events.push({ kind: 'token', id, token, ...(logprobs ? { logprobs } : {}), ...(stop ? { stop } : {}) });
    const end = endOf(open, last?.reason);
    if (end !== undefined) return { open, draft, tokens, events, end };
    if (draft.tokens[i] !== token) break;
  }
  return { open, draft, tokens, events, end: undefined };
}

function endOf(open: OpenAnswer, reason: EndReason | undefined): AcceptedTokens['end'] {
  if (reason !== undefined) return { reason };
  const { obstacle } = open;
  return obstacle === undefined ? undefined : { reason: 'error', error: obstacle };
}
