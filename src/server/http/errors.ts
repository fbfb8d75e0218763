// Every error a client sees, in OpenAI's shape: what is wrong, which parameter, a code for programs; and warnings, in a header.

import type { FastifyError, FastifyReply } from 'fastify';
import { type ContextSizes, GenerationError } from '../../generation/generation-error.ts';
import type { AcquireFailure } from '../../pool/model-pool.ts';
import { StoreError } from '../../store/database.ts';
import { UpstreamError, type UpstreamFailure } from '../../upstream/upstream-error.ts';

type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'timeout_error'
  | 'server_error';

interface ErrorDetails {
  readonly param?: string | undefined;
  readonly code?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly sizes?: ContextSizes | undefined;
}

interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: ErrorType;
    readonly param: string | null;
    readonly code: string | null;
    readonly n_prompt_tokens?: number;
    readonly n_ctx?: number;
  };
}

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly param: string | undefined;
  readonly code: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Set where the context is too small. */
  readonly sizes: ContextSizes | undefined;

  constructor(status: number, message: string, { param, code, headers = {}, sizes }: ErrorDetails = {}) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
    this.headers = headers;
    this.sizes = sizes;
  }

  get type(): ErrorType {
    return typeOf(this.status);
  }

  body(): ErrorBody {
    const { message, type, param, code, sizes } = this;
    // Under llama-server's names: how much to leave out can be computed from them.
    const counts =
      sizes === undefined ? {} : { n_prompt_tokens: sizes.promptTokens, n_ctx: sizes.contextTokens };
    return { error: { message, type, param: param ?? null, code: code ?? null, ...counts } };
  }
}

function typeOf(status: number): ErrorType {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 408) return 'timeout_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

/** The client is gone, so that no answer can be sent. */
export class ClientLeft extends Error {
  override readonly name = 'ClientLeft';
}

export function kindOf(error: unknown): string {
  return error instanceof ClientLeft ? 'client_left' : (toApiError(error).code ?? 'error');
}

/** Whether an operator should look into it: it is neither the client's fault, nor its leaving, nor a shutdown. */
export function isServerFault(error: unknown): boolean {
  if (error instanceof ClientLeft) return false;
  const { status, code } = toApiError(error);
  return status >= 500 && code !== 'shutting_down';
}

export function badRequest(param: string, problem: string, code = 'invalid_value'): ApiError {
  return new ApiError(400, `${param}: ${problem}`, { param, code });
}

export function unsupported(param: string, problem: string): ApiError {
  return badRequest(param, problem, 'unsupported_parameter');
}

export function modelNotFound(name: string): ApiError {
  const message = `the model '${name}' does not exist here; GET /v1/models lists those that do, 'default' is the first of them, and the setting --alias '*=NAME' serves unknown names by one`;
  return new ApiError(404, message, { param: 'model', code: 'model_not_found' });
}

/** A gateway that has just started knows no worker yet: that a model does not exist cannot be said. */
export function noModels(): ApiError {
  const message = 'no model can be served now; a gateway of a fleet has not heard of a worker';
  return new ApiError(503, message, { code: 'no_models', headers: { 'retry-after': '2' } });
}

/** A client comes back: a worker that restarts, or is replaced, has it again soon. */
function modelAway(message: string): ApiError {
  return new ApiError(503, message, { param: 'model', code: 'model_away', headers: { 'retry-after': '5' } });
}

export function shuttingDown(message = 'the server is shutting down and takes no new requests'): ApiError {
  return new ApiError(503, message, { code: 'shutting_down', headers: { 'retry-after': '5' } });
}

export function endedByShutdown(): ApiError {
  return shuttingDown(
    'the server is shutting down and ended this request before its answer was complete; send it again',
  );
}

/** Of a stream that is kept: after the restart it goes on where it was. */
export function pausedByShutdown(requestId: string, eventId: string): ApiError {
  return shuttingDown(
    `the server is shutting down and keeps this request: send it again with 'x-request-id: ${requestId}' and 'Last-Event-ID: ${eventId}', and its answer goes on where it was`,
  );
}

/** Of a response in the background, which needs no client to go on. */
export function responsePaused(after: number): ApiError {
  return shuttingDown(
    `the server is shutting down and goes on with this response after its restart: its events are to be had from there on, with stream=true and starting_after=${after}`,
  );
}

export function deadlineExceeded(limitMs: number): ApiError {
  const message = `the answer was not complete within ${limitMs} ms; ask for fewer tokens or allow more time`;
  return new ApiError(408, message, { code: 'deadline_exceeded', headers: { 'x-should-retry': 'false' } });
}

export function acquireError(failure: AcquireFailure, message: string, name: string | undefined): ApiError {
  if (failure === 'unknown-model') return modelNotFound(name ?? '');
  if (failure === 'closing') return shuttingDown();
  if (failure === 'elsewhere') return new ApiError(400, message, { param: 'model', code: 'model_elsewhere' });
  if (failure === 'away') return modelAway(message);
  if (failure === 'no-memory') {
    return new ApiError(503, message, { code: 'model_does_not_fit', headers: { 'retry-after': '10' } });
  }
  if (failure === 'engine-died') {
    return new ApiError(503, message, { code: 'engine_failed', headers: { 'retry-after': '10' } });
  }
  return new ApiError(500, message, { code: 'model_load_failed' });
}

function fromGeneration({ code, parameter: param, message, sizes }: GenerationError): ApiError {
  switch (code) {
    case 'closing':
      return shuttingDown();
    case 'no_chat_template':
      return new ApiError(
        400,
        `${message}; use /v1/completions with a whole prompt, or start the server with --chat-template`,
        { param, code },
      );
    case 'no_worker':
      return new ApiError(503, message, { code, headers: { 'retry-after': '5' } });
    case 'superseded':
      return new ApiError(409, message, { code, headers: { 'x-should-retry': 'false' } });
    case 'numeric_error':
    case 'engine_failed':
      return new ApiError(500, message, { param, code });
    default:
      return new ApiError(400, message, { param, code, sizes });
  }
}

const upstreamStatus: Readonly<Record<UpstreamFailure, readonly [status: number, code: string]>> = {
  unreachable: [502, 'upstream_unreachable'],
  timeout: [504, 'upstream_timeout'],
  unauthorized: [502, 'upstream_unauthorized'],
  'rate-limited': [429, 'upstream_rate_limited'],
  refused: [400, 'upstream_refused'],
  failed: [502, 'upstream_failed'],
  invalid: [502, 'upstream_invalid_answer'],
  cut: [502, 'upstream_cut_off'],
  filtered: [502, 'upstream_content_filter'],
};

function fromUpstream({ failure, message, param, code: said, retryAfter }: UpstreamError): ApiError {
  const [status, code] = upstreamStatus[failure];
  const headers = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
  // Clients shorten a prompt where they see the first of these; llama.cpp has another.
  const isTooLong = said === 'context_length_exceeded' || said === 'exceed_context_size_error';
  return new ApiError(status, message, {
    param,
    code: isTooLong ? 'context_length_exceeded' : code,
    headers,
  });
}

/** The HTTP error for whatever was thrown. What is not meant for clients stays in the log. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof GenerationError) return fromGeneration(error);
  if (error instanceof UpstreamError) return fromUpstream(error);
  const { code, statusCode, message } = error as Partial<FastifyError>;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return new ApiError(413, 'the request body is too large', { code: 'request_too_large' });
  }
  if (code === 'FST_ERR_CTP_INVALID_JSON_BODY') {
    return new ApiError(400, 'the body is not valid JSON', { code: 'invalid_json' });
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new ApiError(statusCode, message ?? 'the request cannot be read', { code: 'invalid_request' });
  }
  return new ApiError(500, 'something went wrong in the server; its log says more', {
    code: 'internal_error',
  });
}

/** Runs an action on the database; a failure becomes an HTTP error. `what`: how its message names the data. */
export async function fromStore<Result>(
  what: string,
  action: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const message = `${what} cannot be read or changed now; try again`;
    throw new ApiError(503, message, { code: 'store_unavailable', headers: { 'retry-after': '5' } });
  }
}

export function warn(reply: FastifyReply, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const before = reply.getHeader('x-chairlift-warning');
  const all = [...(before === undefined ? [] : [String(before)]), ...warnings].join('; ');
  reply.header('x-chairlift-warning', all.slice(0, 2000).replace(/[^\x20-\x7e]/g, '?'));
}

export function warnOfUnknown(reply: FastifyReply, unknown: readonly string[]): void {
  warn(reply, unknown.length > 0 ? [unknownWarning(unknown)] : []);
}

export function unknownWarning(names: readonly string[]): string {
  const listed = names.slice(0, 16).map((name) => name.slice(0, 64).replace(/[^\x21-\x7e]/g, '?'));
  return `unknown parameters were ignored: ${listed.join(', ')}${names.length > 16 ? ', ...' : ''}`;
}
