// What a step samples: which rows, what came of them, and which tokens are part of an answer.

import type { Backend, StepResult } from '../compute/backend.ts';
import type { SampleResult, SampleRow, TokenLogprobs } from '../sampling/sample-row.ts';
import { type OpenAnswer, OpenScoring } from './open-request.ts';
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

/** A request whose tokens are scored in the step. */
interface Scoring {
  readonly open: OpenScoring;
  readonly rows: readonly SampleRow[];
}

/** What came of the rows; nothing where the request ended during the step. */
type WithResults<Rows> = Rows & { readonly results: readonly SampleResult[] };

/** What of that is part of the answer. */
export interface AcceptedTokens {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly tokens: readonly number[];
  readonly events: readonly RequestEvent[];
  readonly end: { readonly reason: EndReason; readonly error?: RequestError } | undefined;
}

/** What is to be sampled and scored, for each item that has such rows, in order. */
export function samplingOf({ items }: StepPlan, requests: OpenRequests): (Sampling | Scoring)[] {
  return items.flatMap(({ sequence, draft, samples, scores }): (Sampling | Scoring)[] => {
    const open = requests.of(sequence);
    if (samples) return [{ open: open as OpenAnswer, draft, rows: (open as OpenAnswer).sampleRows(draft) }];
    const rows = open instanceof OpenScoring ? open.scoredRows(scores) : [];
    return rows.length === 0 ? [] : [{ open: open as OpenScoring, rows }];
  });
}

export interface StepSamples {
  readonly answers: readonly WithResults<Sampling>[];
  readonly scored: readonly WithResults<Scoring>[];
}

/** Samples for those that are still open. */
export function sampleStep(
  sampling: readonly (Sampling | Scoring)[],
  { logits, sampled }: StepResult,
  requests: OpenRequests,
  backend: Pick<Backend, 'sampleRows'>,
  vocabSize: number,
): StepSamples {
  const isOpen = ({ open }: Sampling | Scoring) => requests.of(open.sequence) !== undefined;
  const allRows = () => sampling.flatMap(({ rows }) => rows);
  const whole =
    sampled ?? (sampling.every(isOpen) ? backend.sampleRows(logits, vocabSize, allRows()) : undefined);
  let first = 0;
  const all = sampling.map((each) => {
    const [from, to] = [first, first + each.rows.length];
    first = to;
    if (!isOpen(each)) return { ...each, results: [] };
    const results =
      whole?.slice(from, to) ??
      backend.sampleRows(logits.subarray(from * vocabSize, to * vocabSize), vocabSize, each.rows);
    return { ...each, results };
  });
  return {
    answers: all.filter((each) => 'draft' in each),
    scored: all.flatMap((each) => ('draft' in each ? [] : [each])),
  };
}

/** Adds scores to those of before; why they cannot be had, where a row has none. */
export function addScores({ open, results }: WithResults<Scoring>): RequestError | undefined {
  const scores: TokenLogprobs[] = [];
  for (const result of results) {
    if (!result.ok) return samplingError(result.error);
    scores.push(result.logprobs as TokenLogprobs);
  }
  open.sequence.scored?.add(scores);
  return undefined;
}

/** Up to the first draft token that is rejected, or the answer's end. */
export function acceptTokens({ open, draft, results }: WithResults<Sampling>): AcceptedTokens {
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
    const isPublished = open.isPublished(tokens.length);
    if (!isPublished)
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
