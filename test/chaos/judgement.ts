// Whether an outcome is one the documents allow, given who asked, how, and what was done to the server meanwhile.

import { difference } from './answer.ts';
import type { Outcome } from './outcome.ts';

export interface Circumstances {
  /** The right answer. */
  readonly reference: unknown;
  /** Of the key that asked. */
  readonly limited: boolean;
  readonly revoked: boolean;
  /** The client set a deadline of its own. */
  readonly deadline: boolean;
  /** Engine processes that were ended while the request was under way. */
  readonly deaths: number;
  /** The server had been told to end. */
  readonly closing: boolean;
  /** Nothing is being disturbed: only the answer will do. */
  readonly calm: boolean;
}

/** What a request may cost of engine processes before it is given up. */
const DEATHS_TO_GIVE_UP = 3;

export interface Complaint {
  readonly kind: string;
  readonly detail: string;
}

/** Undefined where all is as it should be. */
export function complaintAbout(outcome: Outcome, given: Circumstances): Complaint | undefined {
  switch (outcome.kind) {
    case 'left':
      return undefined;
    case 'nothing':
      return { kind: 'no answer and no error', detail: outcome.why };
    case 'answer':
      return answerComplaint(outcome.answer, given);
    case 'error':
      return errorComplaint(outcome, given);
  }
}

function answerComplaint(answer: unknown, { reference, revoked }: Circumstances): Complaint | undefined {
  if (revoked) return { kind: 'served a revoked key', detail: 'an answer instead of 401' };
  const detail = difference(reference, answer);
  return detail === undefined ? undefined : { kind: 'wrong answer', detail };
}

function errorComplaint(
  error: Extract<Outcome, { kind: 'error' }>,
  { limited, revoked, deadline, deaths, closing, calm }: Circumstances,
): Complaint | undefined {
  const { status, code, message, retryAfter, inStream } = error;
  const complain = (kind: string): Complaint => ({ kind, detail: `${status} ${code}: ${message}` });
  if (status === 401 && revoked) return undefined;
  if (calm) return complain('an error in a calm hour');
  if (revoked) return complain('a revoked key got another error than 401');
  if (status === 408 && deadline) return undefined;
  if (status === 429) {
    if (code !== 'queue_full' && !limited) return complain('a limit for a key without limits');
    if (!inStream && !(retryAfter !== undefined && retryAfter >= 1))
      return complain('429 without Retry-After');
    return undefined;
  }
  if (status === 503) {
    return code === 'shutting_down' && !closing ? complain('shutting down without being told') : undefined;
  }
  // Three engines in a row that die on one request are the documented end of it.
  if (code === 'engine_failed' && deaths >= DEATHS_TO_GIVE_UP) return undefined;
  return complain('unexpected error');
}
