// Whether an outcome is one the documents allow, given who asked, how, and what was done to the server meanwhile.

import { beginningProblem, type CompletionAnswer, difference } from './answer.ts';
import { hadBegun, type Outage } from './outages.ts';
import type { Outcome } from './outcome.ts';

export interface Circumstances {
  /** The right answer. */
  readonly reference: unknown;
  /** Of the key that asked. */
  readonly limited: boolean;
  /** What is left of the key's day may cut its answers. */
  readonly budgeted: boolean;
  readonly revoked: boolean;
  /** The client set a deadline of its own. */
  readonly deadline: boolean;
  /** The client hardly read: nobody waits for such when the server ends. */
  readonly slow: boolean;
  /** Engine processes that were ended while the request was under way. */
  readonly deaths: number;
  /** The end of the server that it lived through. */
  readonly outage: Outage | undefined;
  readonly startedMs: number;
  readonly endedMs: number;
  /** Nothing is being disturbed: only the answer will do. */
  readonly calm: boolean;
}

/** What a request may cost of engine processes before it is given up. */
const DEATHS_TO_GIVE_UP = 3;
/** How much earlier than the limit says a request may be ended when the server stops. */
const EARLY_MS = 1000;

export interface Complaint {
  readonly kind: string;
  readonly detail: string;
}

/** Undefined where all is as it should be. */
export function complaintAbout(outcome: Outcome, given: Circumstances): Complaint | undefined {
  switch (outcome.kind) {
    case 'left':
      return undefined;
    case 'broken':
      return brokenComplaint(outcome, given);
    case 'nothing':
      return { kind: 'no answer and no error', detail: outcome.why };
    case 'answer':
      return answerComplaint(outcome.answer, given);
    case 'error':
      return errorComplaint(outcome, given);
  }
}

/** A connection may break where the server was ended by force, or had not begun with the request when it was told to end. */
function brokenComplaint(
  { why, begun }: Extract<Outcome, { kind: 'broken' }>,
  { outage, startedMs, slow }: Circumstances,
): Complaint | undefined {
  if (outage === undefined) return { kind: 'no answer and no error', detail: why };
  if (outage.kind === 'cut' || slow) return undefined;
  if (!begun && !hadBegun(outage, startedMs)) return undefined;
  return { kind: 'cut off by a stop in good order', detail: why };
}

function answerComplaint(
  answer: unknown,
  { reference, revoked, budgeted }: Circumstances,
): Complaint | undefined {
  if (revoked) return { kind: 'served a revoked key', detail: 'an answer instead of 401' };
  const detail = difference(reference, answer);
  if (detail === undefined) return undefined;
  const cut = budgeted && isCompletion(reference) && isCompletion(answer);
  const problem = cut ? beginningProblem(reference, answer) : detail;
  return problem === undefined ? undefined : { kind: 'wrong answer', detail: problem };
}

function isCompletion(answer: unknown): answer is CompletionAnswer {
  return Array.isArray((answer as CompletionAnswer | undefined)?.choices);
}

function errorComplaint(
  error: Extract<Outcome, { kind: 'error' }>,
  given: Circumstances,
): Complaint | undefined {
  const { limited, revoked, deadline, deaths, calm } = given;
  const { status, code, message, retryAfter, inStream } = error;
  const complain = (kind: string): Complaint => ({ kind, detail: `${status} ${code}: ${message}` });
  if (status === 401 && revoked) return undefined;
  if (code === 'shutting_down') {
    const kind = stoppedTooSoon(given);
    return kind === undefined ? undefined : complain(kind);
  }
  if (calm) return complain('an error in a calm hour');
  if (revoked) return complain('a revoked key got another error than 401');
  if (status === 408 && deadline) return undefined;
  // Not every protocol has a status or a code in its streams.
  if (deadline && inStream && message.includes('was not complete within')) return undefined;
  // A prompt may be longer than all that its key has in a day.
  if (status === 400 && code === 'exceeds_key_limit' && limited) return undefined;
  if (status === 429) {
    if (code !== 'queue_full' && !limited) return complain('a limit for a key without limits');
    if (!inStream && !(retryAfter !== undefined && retryAfter >= 1))
      return complain('429 without Retry-After');
    return undefined;
  }
  // Each model fits alone: a request for it may have to wait, and is never refused for that.
  if (code === 'model_does_not_fit') return complain('refused although the model fits in turn');
  if (status === 503) return undefined;
  // Three engines in a row that die on one request are the documented end of it.
  if (code === 'engine_failed' && deaths >= DEATHS_TO_GIVE_UP) return undefined;
  return complain('unexpected error');
}

/** Requests that are being served when the server is stopped have the time of the limit. */
function stoppedTooSoon({ outage, startedMs, endedMs }: Circumstances): string | undefined {
  if (outage === undefined) return 'shutting down without being told';
  if (outage.kind === 'cut' || !hadBegun(outage, startedMs)) return undefined;
  return endedMs < outage.toldMs + outage.limitMs - EARLY_MS
    ? 'ended before the time of a stop was over'
    : undefined;
}
