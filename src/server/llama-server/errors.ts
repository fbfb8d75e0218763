// Errors of llama-server's own routes: as everywhere, but for those that its clients know by their type, or their words.

import type { ApiError } from '../http/errors.ts';

const NOT_SUPPORTED = 501;

export function nativeError(error: ApiError): object {
  const { error: body } = error.body();
  const { sizes, status } = error;
  if (status === NOT_SUPPORTED) return { error: { ...body, type: 'not_supported_error' } };
  if (sizes === undefined) return { error: body };
  const { promptTokens, contextTokens } = sizes;
  const message = `the request has ${promptTokens} tokens and exceeds the available context size of ${contextTokens}; shorten it, or start the server with a larger --context`;
  return { error: { ...body, message, type: 'exceed_context_size_error' } };
}
