// Lets pages of other sites ask from a browser (CORS), where their origins are allowed. Cookies mean nothing here, so
// that no page gains more than it can send itself.

import type { FastifyReply, FastifyRequest } from 'fastify';

const METHODS = 'GET, HEAD, POST, DELETE';
/** Where a browser does not say what a page will send. */
const HEADERS =
  'authorization, content-type, x-api-key, anthropic-version, x-request-id, x-chairlift-timeout-ms';
const limits = ['limit', 'remaining', 'reset'].flatMap((what) =>
  ['requests', 'tokens', 'daily-tokens'].map((of) => `x-ratelimit-${what}-${of}`),
);
/** What a page may read of an answer, beside its body. */
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

/** Marks an answer for its page, and answers the question that a browser asks ahead; undefined where there is more to do. */
export function allowOrigin(
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
  origins: readonly string[],
): FastifyReply | undefined {
  if (origins.length === 0) return undefined;
  const all = origins.includes('*');
  // Caches must not give one page the answer that is marked for another.
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
