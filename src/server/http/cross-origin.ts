// CORS: lets pages of allowed origins send requests from a browser. The server uses no cookies, so that a page gains no
// more than it can send itself.

import type { FastifyReply, FastifyRequest } from 'fastify';

const METHODS = 'GET, HEAD, POST, DELETE';
const HEADERS =
  'authorization, content-type, x-api-key, anthropic-version, x-request-id, x-chairlift-timeout-ms';
const limits = ['limit', 'remaining', 'reset'].flatMap((what) =>
  ['requests', 'tokens', 'daily-tokens'].map((of) => `x-ratelimit-${what}-${of}`),
);
const EXPOSED = [
  'x-request-id',
  'x-chairlift-warning',
  'x-chairlift-mode',
  'x-queue-wait-ms',
  'x-queue-position',
  'retry-after',
  'retry-after-ms',
]
  .concat(limits, 'x-ratelimit-capped-tokens')
  .join(', ');
const DAY_SECONDS = 86_400;

/** Sets the headers of a response, and answers a preflight; undefined where the request still has to be handled. */
export function allowOrigin(
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
  origins: readonly string[],
): FastifyReply | undefined {
  if (origins.length === 0) return undefined;
  const all = origins.includes('*');
  // A cache must not give one origin the response that is marked for another.
  if (!all) reply.header('vary', 'Origin');
  const { origin } = headers;
  if (origin === undefined || !(all || origins.includes(origin.toLowerCase()))) return undefined;
  reply.header('access-control-allow-origin', all ? '*' : origin);
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) {
    reply.header('access-control-expose-headers', EXPOSED);
    return undefined;
  }
  return reply
    .code(204)
    .headers({
      'access-control-allow-methods': METHODS,
      'access-control-allow-headers': headers['access-control-request-headers'] ?? HEADERS,
      'access-control-max-age': String(DAY_SECONDS),
    })
    .send();
}
