// A request's stay in the house: first the limits of its key, which cost little to ask, then its time, then its place in
// the queue, then its model. Whatever was taken is given back, in the other order, however the stay ends.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServedModel } from '../pool/served-model.ts';
import type { QueueTicket } from './admission.ts';
import type { Caller } from './auth.ts';
import type { ServerContext } from './context.ts';
import { ApiError } from './errors.ts';
import type { LimitKind, LimitRefusal, Permit } from './limits/key-limiter.ts';
import { acquireModel } from './models.ts';

export interface Stay {
  readonly permit: Permit;
  /** Aborts with an ApiError, or with ClientLeft. */
  readonly signal: AbortSignal;
  /** Ends it from within: with an ApiError, or with ClientLeft where its client wants no more of it. */
  abort(reason: Error): void;
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
  const admitted = await limiter.admit(keyId, limits, Date.now(), leastTokens);
  if (!admitted.ok) throw limitReached(admitted);
  reply.headers(admitted.headers);
  const { permit } = admitted;
  try {
    const lifetime = activity.begin(request, reply, settings.requestTimeoutMs);
    try {
      return await use({ permit, signal: lifetime.signal, abort: lifetime.abort });
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

/** A stay that waits for an engine. */
export interface Visit extends Stay {
  readonly model: ServedModel;
  /** How long it waited for the model. */
  readonly loadMs: number;
  readonly ticket: QueueTicket;
}

export interface VisitTerms {
  readonly modelName: string;
  readonly leastTokens: number;
  /** How long the model stays afterwards when nobody uses it, where the request decides that. */
  readonly idleMs?: number | undefined;
}

export async function visit<Result>(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { modelName, leastTokens, idleMs }: VisitTerms,
  use: (visit: Visit) => Promise<Result>,
): Promise<Result> {
  return stay(context, request, reply, leastTokens, async (place) => {
    const { keyId, background } = request.caller as Caller;
    const ticket = context.admission.enter(modelName, keyId, background);
    const askedMs = performance.now();
    const enter = (model: ServedModel) => {
      // For the client's eyes: its answer is right, but slow, and others wait for it.
      if (model.direct) reply.header('x-chairlift-mode', 'direct');
      return use({ ...place, model, ticket, loadMs: performance.now() - askedMs });
    };
    try {
      return await withModel(context, modelName, place.signal, enter, idleMs);
    } finally {
      ticket.leave();
    }
  });
}

/** What waits in the queue, and what the key will have used when all is done; refuses where either is too much. */
export async function weigh(
  { reply, permit, ticket }: Pick<Visit, 'permit' | 'ticket'> & { readonly reply: FastifyReply },
  promptTokens: number,
  expectedTokens: number,
): Promise<void> {
  ticket.weigh(promptTokens);
  const weighed = await permit.weigh(expectedTokens, Date.now());
  if (!weighed.ok) throw limitReached(weighed);
  reply.headers(weighed.headers);
}

const limitNames: Readonly<Record<LimitKind, string>> = {
  requests: 'requests per minute',
  tokens: 'tokens per minute',
  concurrent: 'requests at once',
  daily: 'tokens per day',
};

function limitReached({ kind, retryAfterMs, headers }: LimitRefusal): ApiError {
  const seconds = Math.ceil(retryAfterMs / 1000);
  const message = `the key's limit of ${limitNames[kind]} is reached; try again in ${seconds} s`;
  return new ApiError(429, message, { code: 'rate_limit_exceeded', headers });
}
