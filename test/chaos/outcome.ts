// What became of a request, as its client can tell: an answer, an error in the shape the documents promise, the
// client's own leaving, or nothing of these, which must not be.

import { answerOf, type CompletionAnswer, type WireAnswer } from './answer.ts';
import type { Exchange } from './exchange.ts';

export type Outcome =
  | { readonly kind: 'answer'; readonly answer: CompletionAnswer | unknown }
  | {
      readonly kind: 'error';
      readonly status: number;
      readonly code: string | null;
      readonly message: string;
      /** Seconds; undefined where the server gave none. */
      readonly retryAfter: number | undefined;
      readonly inStream: boolean;
    }
  | { readonly kind: 'left' }
  | { readonly kind: 'nothing'; readonly why: string };

interface WireError {
  readonly message: string;
  readonly type: string;
  readonly code: string | null;
}

/** `form`: what an answer must be. */
export function outcomeOf(exchange: Exchange, form: 'completion' | 'stream' | 'json'): Outcome {
  const { end, status, text } = exchange;
  if (end === 'left') return { kind: 'left' };
  const soFar = `status ${status ?? 'none'}, ${text.length} characters, the last of them ${JSON.stringify(text.slice(-120))}`;
  if (end === 'late') return nothing(`no end within the time limit: ${soFar}`);
  if (end === 'broken' || status === undefined) return nothing(`${exchange.problem}: ${soFar}`);
  if (status >= 200 && status < 300) {
    if (form === 'stream') return streamOutcome(text);
    const body = parsed(text);
    if (body === undefined) return nothing(`the body is no JSON: ${soFar}`);
    return form === 'json' ? { kind: 'answer', answer: body } : wholeOutcome(body as WireAnswer, soFar);
  }
  const error = errorOf(parsed(text));
  if (error === undefined) return nothing(`an error without the documented body: ${soFar}`);
  const retryAfter = exchange.headers['retry-after'];
  return {
    kind: 'error',
    status,
    code: error.code,
    message: error.message,
    retryAfter: retryAfter === undefined ? undefined : Number(retryAfter),
    inStream: false,
  };
}

function wholeOutcome(body: WireAnswer, soFar: string): Outcome {
  const answer = answerOf([body]);
  const problem = incomplete(answer);
  return problem === undefined ? { kind: 'answer', answer } : nothing(`${problem}: ${soFar}`);
}

function streamOutcome(text: string): Outcome {
  const parts: WireAnswer[] = [];
  let done = false;
  for (const event of text.split('\n\n')) {
    const data = event.split('\n').find((line) => line.startsWith('data: '));
    if (data === undefined) continue;
    if (done) return nothing(`something came after [DONE]: ${event.slice(0, 120)}`);
    if (data === 'data: [DONE]') {
      done = true;
      continue;
    }
    const part = parsed(data.slice('data: '.length));
    if (part === undefined) return nothing(`an event is no JSON: ${data.slice(0, 120)}`);
    const error = errorOf(part);
    if (error !== undefined) return streamError(error);
    parts.push(part as WireAnswer);
  }
  if (!done)
    return nothing(
      `the stream ended without [DONE] and without an error: ${JSON.stringify(text.slice(-200))}`,
    );
  const answer = answerOf(parts);
  const problem = incomplete(answer);
  return problem === undefined ? { kind: 'answer', answer } : nothing(problem);
}

/** The status is gone by then; the error's type says which it would have been. */
const statusOfType: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  timeout_error: 408,
  rate_limit_error: 429,
};

function streamError({ type, code, message }: WireError): Outcome {
  const serverStatus = code === 'shutting_down' || code === 'model_does_not_fit' ? 503 : 500;
  const status = statusOfType[type] ?? serverStatus;
  return { kind: 'error', status, code, message, retryAfter: undefined, inStream: true };
}

function incomplete({ choices }: CompletionAnswer): string | undefined {
  if (choices.length === 0) return 'an answer without choices';
  for (let index = 0; index < choices.length; index++) {
    if (choices[index] === undefined) return `choice ${index} is missing`;
    if (typeof choices[index]?.reason !== 'string') return `choice ${index} has no finish_reason`;
  }
  return undefined;
}

function errorOf(body: unknown): WireError | undefined {
  const error = (body as { error?: Partial<WireError> } | undefined)?.error;
  const sound = typeof error?.message === 'string' && typeof error.type === 'string';
  return sound ? { code: null, ...(error as Omit<WireError, 'code'>) } : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function nothing(why: string): Outcome {
  return { kind: 'nothing', why };
}
