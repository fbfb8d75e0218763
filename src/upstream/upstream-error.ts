// What goes wrong at an upstream. Messages are for clients: they never hold the upstream's key or address.

export type UpstreamFailure =
  /** No connection, or none that may be made. */
  | 'unreachable'
  /** It was silent for too long. */
  | 'timeout'
  /** It does not know our key, or not for this. */
  | 'unauthorized'
  | 'rate-limited'
  /** The request itself is at fault, it says. */
  | 'refused'
  /** It has no such model or route, or failed, or wants us to go elsewhere. */
  | 'failed'
  /** What it sent is no answer of its protocol. */
  | 'invalid'
  /** The connection broke before the answer was complete. */
  | 'cut'
  /** It ended the answer for its content. */
  | 'filtered';

interface UpstreamErrorDetails {
  readonly retryAfter?: string | undefined;
  readonly param?: string | undefined;
  readonly code?: string | undefined;
}

export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly failure: UpstreamFailure;
  readonly retryAfter: string | undefined;
  readonly param: string | undefined;
  readonly code: string | undefined;

  constructor(failure: UpstreamFailure, message: string, details: UpstreamErrorDetails = {}) {
    super(message);
    this.failure = failure;
    this.retryAfter = details.retryAfter;
    this.param = details.param;
    this.code = details.code;
  }
}
