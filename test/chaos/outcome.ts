// What became of a request, as its client can tell: an answer, an error in the shape the documents promise, the
// client's own leaving, a connection that broke, or nothing of these, which must not be.

import type { TokenUsage } from './answer.ts';
import type { Exchange } from './exchange.ts';
import { errorOf, type Form, parsed, readers } from './readers.ts';

export type Outcome =
  /** Without `usage` where it costs no tokens; with an `id` where one may go on from it. */
  | { readonly kind: 'answer'; readonly answer: unknown; readonly usage?: TokenUsage; readonly id?: string }
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
  /** `begun`: a part of the response had come. */
  | { readonly kind: 'broken'; readonly why: string; readonly begun: boolean }
  | { readonly kind: 'nothing'; readonly why: string };

/** `form`: what an answer must be. */
export function outcomeOf(exchange: Exchange, form: Form): Outcome {
  const { end, status, text } = exchange;
  if (end === 'left') return { kind: 'left' };
  const soFar = `status ${status ?? 'none'}, ${text.length} characters, the last of them ${JSON.stringify(text.slice(-120))}`;
  if (end === 'late') return { kind: 'nothing', why: `no end within the time limit: ${soFar}` };
  if (end === 'broken' || status === undefined) {
    return { kind: 'broken', why: `${exchange.problem}: ${soFar}`, begun: status !== undefined };
  }
  if (status >= 200 && status < 300) return readers[form](text);
  const error = errorOf(parsed(text));
  if (error === undefined) return { kind: 'nothing', why: `an error without the documented body: ${soFar}` };
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
