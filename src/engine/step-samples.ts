// What a step samples: which rows, and which of the tokens that came of them are part of an answer.

import type { SampleResult, SampleRow, TokenLogprobs } from '../sampling/sample-row.ts';
import type { StopToken } from '../sampling/stop-condition.ts';
import type { OpenAnswer, OpenScoring } from './open-request.ts';
import type { OpenRequests } from './open-requests.ts';
import type { EndReason, RequestError, TokenEvent } from './request.ts';
import { samplingError } from './request-errors.ts';
import type { Draft } from './scheduler/draft.ts';
import type { StepPlan } from './scheduler/step-plan.ts';

/** A request that samples in the step, the next token and one after each draft token: by rows `from … end - 1`. */
interface Sampling {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly from: number;
  readonly end: number;
}

/** A request whose tokens are scored in the step, likewise. */
interface Scoring {
  readonly open: OpenScoring;
  readonly from: number;
  readonly end: number;
}

/** All that a step samples and scores, in the order of its items. */
export interface StepRows {
  readonly rows: readonly SampleRow[];
  readonly answers: readonly Sampling[];
  readonly scored: readonly Scoring[];
}

/** What of it is part of an answer. */
export interface AcceptedTokens {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly tokens: readonly number[];
  readonly events: readonly TokenEvent[];
  readonly end: { readonly reason: EndReason; readonly error?: RequestError } | undefined;
}

export function stepRows({ items }: StepPlan, requests: OpenRequests): StepRows {
  const rows: SampleRow[] = [];
  const answers: Sampling[] = [];
  const scored: Scoring[] = [];
  for (const { sequence, draft, samples, scores } of items) {
    const from = rows.length;
    if (samples) {
      const open = requests.of(sequence) as OpenAnswer;
      rows.push(open.sampleRow(), ...draft.rows);
      answers.push({ open, draft, from, end: rows.length });
    } else if (scores[0] < scores[1]) {
      const open = requests.of(sequence) as OpenScoring;
      rows.push(...open.scoredRows(scores));
      scored.push({ open, from, end: rows.length });
    }
  }
  return { rows, answers, scored };
}

/** Adds scores to those of before; why they cannot be had, where a row has none. */
export function addScores(
  { open, from, end }: Scoring,
  results: readonly SampleResult[],
): RequestError | undefined {
  const scores: TokenLogprobs[] = [];
  for (const result of results.slice(from, end)) {
    if (!result.ok) return samplingError(result.error);
    scores.push(result.logprobs as TokenLogprobs);
  }
  open.sequence.scored?.add(scores);
  return undefined;
}

/** Up to the first draft token that is rejected, or the answer's end; nothing where the request ended during the step. */
export function acceptTokens(
  { open, draft, from, end }: Sampling,
  results: readonly SampleResult[],
  requests: OpenRequests,
): AcceptedTokens {
  const tokens: number[] = [];
  const events: TokenEvent[] = [];
  const accepted = (end?: AcceptedTokens['end']) => ({ open, draft, tokens, events, end });
  if (requests.of(open.sequence) === undefined) return accepted();
  const { id } = open.request;
  for (let row = from; row < end; row++) {
    const result = results[row] as SampleResult;
    if (!result.ok) return accepted({ reason: 'error', error: samplingError(result.error) });
    const { token, logprobs } = result;
    tokens.push(token);
    const last = open.accept(result, tokens.length);
    if (!open.isPublished(tokens.length)) events.push(tokenEvent(id, token, logprobs, last?.stop));
    const ended = endOf(open, last?.reason);
    if (ended !== undefined) return accepted(ended);
    if (draft.tokens[row - from] !== token) break;
  }
  return accepted();
}

/** Absent members are left out: there is an event for each token, and they are sent to another process. */
function tokenEvent(
  id: string,
  token: number,
  logprobs: TokenLogprobs | undefined,
  stop: StopToken | undefined,
): TokenEvent {
  if (logprobs === undefined && stop === undefined) return { kind: 'token', id, token };
  return { kind: 'token', id, token, ...(logprobs && { logprobs }), ...(stop && { stop }) };
}

function endOf(open: OpenAnswer, reason: EndReason | undefined): AcceptedTokens['end'] {
  if (reason !== undefined) return { reason };
  const { obstacle } = open;
  return obstacle === undefined ? undefined : { reason: 'error', error: obstacle };
}
