// Errors in Anthropic's shape.

import type { FastifyRequest } from 'fastify';
import type { ApiError } from '../http/errors.ts';

export function anthropicError(error: ApiError, { id }: Pick<FastifyRequest, 'id'>): object {
  return {
    type: 'error',
    error: { type: typeOf(error.status), message: messageOf(error), ...detailsOf(error) },
    request_id: id,
  };
}

function typeOf(status: number): string {
  switch (status) {
    case 401:
      return 'authentication_error';
    case 403:
      return 'permission_error';
    case 404:
      return 'not_found_error';
    case 408:
      return 'timeout_error';
    case 413:
      return 'request_too_large';
    case 429:
      return 'rate_limit_error';
    case 503:
      return 'overloaded_error';
    default:
      return status >= 500 ? 'api_error' : 'invalid_request_error';
  }
}

/** Clients recognize by the first words that they must shorten the conversation, which would not help with other limits. */
function messageOf({ code, param, message }: ApiError): string {
  const isAboutPrompt =
    code === 'context_length_exceeded' && param !== 'min_tokens' && param !== 'max_tokens';
  return isAboutPrompt ? `prompt is too long: ${message}` : message;
}

/** The tool runners of Anthropic's libraries recognize by it that they must send the whole conversation each time. */
function detailsOf({ param, code }: ApiError): object {
  const noThread = param === 'thread' && code === 'unsupported_parameter';
  return noThread ? { details: { error_code: 'thread_unsupported_request' } } : {};
}
