// A request's stay in the house: first the limits of its key, which cost nothing to ask, then its time, then its
// model. Whatever was taken is given back, in the other order, however the stay ends.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServedModel } from '../pool/served-model.ts';
import type { Caller } from './auth.ts';
import type { ServerContext } from './context.ts';
import { ApiError } from './errors.ts';
import type { LimitKind, LimitRefusal, Permit } from './limits/limiter.ts';
import { acquireModel } from './models.ts';

export interface Stay {
  readonly permit: Permit;
  /** Aborts with an ApiError, or with ClientLeft. */
  readonly signal: AbortSignal;
}

/**
 * `leastTokens`: what the request will weigh for certain, so that one which has no chance waits for no model. A permit
 * that is not settled in the end is settled with nothing used.
 */
export async function stay<Result>(
  { limiter, activity, settings }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  leastTokens: number,
  use: (stay: Stay) => Promise<Result>,
): Promise<Result> {
  const { keyId, limits } = request.caller as Caller;
  const admitted = limiter.admit(keyId, limits, Date.now(), leastTokens);
  if (!admitted.ok) throw limitReached(admitted);
  reply.headers(admitted.headers);
  const { permit } = admitted;
  try {
    const lifetime = activity.begin(request, reply, settings.requestTimeoutMs);
    try {
      return await use({ permit, signal: lifetime.signal });
    } finally {
      lifetime.end();
    }
  } finally {
    permit.settle(0, Date.now());
  }
}

/** `idleMs`: how long the model stays afterwards when nobody uses it, where the request decides that. */
export async function withModel<Result>(
  { pool }: ServerContext,
  name: string,
  signal: AbortSignal,
  use: (model: ServedModel) => Promise<Result>,
  idleMs?: number,
): Promise<Result> {
  const lease = await acquireModel(pool, name, signal);
  try {
    return await use(lease.model);
  } finally {
    lease.release(idleMs);
  }
}

const limitNames: Readonly<Record<LimitKind, string>> = {
  requests: 'requests per minute',
  tokens: 'tokens per minute',
  concurrent: 'requests at once',
  daily: 'tokens per day',
};

export function limitReached({ kind, retryAfterMs, headers }: LimitRefusal): ApiError {
  const seconds = Math.ceil(retryAfterMs / 1000);
  const message = `the key's limit of ${limitNames[kind]} is reached; try again in ${seconds} s`;
  return new ApiError(429, message, { code: 'rate_limit_exceeded', headers });
}
