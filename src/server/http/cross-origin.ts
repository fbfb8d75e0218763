// Requests that browsers send for pages of other origins: who may send them (CORS), and how they are recognized.

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
  if (origin === undefined) return undefined;
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
  // A browser reads the missing header as a refusal.
  if (!isAllowed(origin, origins)) return isPreflight ? reply.code(200).send() : undefined;
  reply.header('access-control-allow-origin', all ? '*' : origin);
  if (!isPreflight) {
    reply.header('access-control-expose-headers', EXPOSED);
    return undefined;
  }
  // Some clients take no other status of success than this.
  return reply
    .code(200)
    .headers({
      'access-control-allow-methods': METHODS,
      'access-control-allow-headers': headers['access-control-request-headers'] ?? HEADERS,
      'access-control-max-age': String(DAY_SECONDS),
    })
    .send();
}

export function isAllowed(origin: string, origins: readonly string[]): boolean {
  if (origins.includes('*') || origins.includes(origin.toLowerCase())) return true;
  return origins.includes('localhost') && isLoopback(origin);
}

/** A page that this machine serves, at any port. */
function isLoopback(origin: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { hostname, origin: whole } = new URL(origin);
  return whole === origin && ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
}

export function isReading({ method }: Pick<FastifyRequest, 'method'>): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
}

/**
 * Whether a browser sent it for a page of another origin. Pages cannot set Sec-Fetch-Site; browsers leave it out on plain
 * HTTP to other machines, where Origin must do. What a page merely reads without CORS has no Origin, and it never sees it.
 */
export function isForeignPage(request: FastifyRequest): boolean {
  const { headers, host, protocol } = request;
  const { origin, 'sec-fetch-site': site } = headers;
  if (site === 'same-origin' || site === 'none') return false;
  if (origin === undefined) return site !== undefined && !isReading(request);
  return origin !== `${protocol}://${host}`;
}

/** The same for what a page reads without CORS, such as an image, which has no Origin. */
export function isForeignReader(request: FastifyRequest): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers;
  return origin === undefined
    ? site !== undefined && site !== 'same-origin' && site !== 'none'
    : isForeignPage(request);
}
