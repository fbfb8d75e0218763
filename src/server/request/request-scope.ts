// A request's stay in the house: first the limits of its key, which cost little to ask, then its time, then its place in
// the queue, then its model. Whatever was taken is given back, in the other order, however the stay ends.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import type { LimitKind, LimitRefusal, Permit, TokenDemand, Weighed } from '../limits/key-limiter.ts';
import type { Lifetime } from './activity.ts';
import type { QueueTicket } from './admission.ts';
import type { Caller } from './auth.ts';
import { acquireModel } from './find-model.ts';

export interface Stay {
  readonly permit: Permit;
  /** Aborts with an ApiError, or with ClientLeft. */
  readonly signal: AbortSignal;
  /** Keeps it, though its client has its answer, until it is known what it has used. */
  endAfter(charged: Promise<void>): void;
  /** Ends it from within: with an ApiError, or with ClientLeft where its client wants no more of it. */
  abort(reason: Error): void;
}

/**
 * `demand`: what is known of the tokens it will use, so that a request which has no chance waits for no model. A permit
 * that is not settled in the end is settled with nothing used.
 */
export async function stay<Result>(
  { limiter, activity, settings }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  demand: TokenDemand,
  use: (stay: Stay) => Promise<Result>,
): Promise<Result> {
  const { keyId, limits } = request.caller as Caller;
  const admitted = await limiter.admit(keyId, limits, Date.now(), demand);
  if (!admitted.ok) throw limitReached(admitted);
  reply.headers(admitted.headers);
  const { permit } = admitted;
  let lifetime: Lifetime | undefined;
  let charged: Promise<void> | undefined;
  const end = () => {
    lifetime?.end();
    permit.settle(0, Date.now());
  };
  const endAfter = (promise: Promise<void>) => {
    charged = promise;
  };
  try {
    lifetime = activity.begin(request, reply, settings.requestTimeoutMs);
    return await use({ permit, signal: lifetime.signal, abort: lifetime.abort, endAfter });
  } finally {
    if (charged === undefined) end();
    else void charged.finally(end);
  }
}

export interface UseTerms {
  /** How long the model stays afterwards when nobody uses it, where the request decides that. */
  readonly idleMs?: number | undefined;
  /** Nobody waits for the answer. */
  readonly background?: boolean | undefined;
}

export async function withModel<Result>(
  { pool }: ServerContext,
  name: string,
  signal: AbortSignal,
  use: (model: ServedModel) => Promise<Result>,
  { idleMs, background }: UseTerms = {},
): Promise<Result> {
  const lease = await acquireModel(pool, name, signal, background);
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
  /** What is known of it. */
  readonly demand: TokenDemand;
  /** Answers to each of its prompts, or texts to embed. */
  readonly sequences: number;
  /** How long the model stays afterwards when nobody uses it, where the request decides that. */
  readonly idleMs?: number | undefined;
}

export async function visit<Result>(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { modelName, demand, sequences, idleMs }: VisitTerms,
  use: (visit: Visit) => Promise<Result>,
): Promise<Result> {
  return stay(context, request, reply, demand, async (place) => {
    const { keyId: account, background } = request.caller as Caller;
    const ticket = context.admission.enter(modelName, { account, background, sequences });
    const askedMs = performance.now();
    const enter = (model: ServedModel) => {
      // For the client's eyes: its answer is right, but slow, and others wait for it.
      if (model.direct) reply.header('x-chairlift-mode', 'direct');
      return use({ ...place, model, ticket, loadMs: performance.now() - askedMs });
    };
    try {
      return await withModel(context, modelName, place.signal, enter, { idleMs, background });
    } finally {
      ticket.leave();
    }
  });
}

/** What waits in the queue, and what the key will have used when all is done; refuses where either is too much. */
export async function weigh(
  { reply, permit, ticket }: Pick<Visit, 'permit' | 'ticket'> & { readonly reply: FastifyReply },
  promptTokens: number,
  demand: TokenDemand,
): Promise<Extract<Weighed, { ok: true }>> {
  ticket.weigh(promptTokens);
  const weighed = await permit.weigh(demand, Date.now());
  if (!weighed.ok) throw limitReached(weighed);
  reply.headers(weighed.headers);
  return weighed;
}

const limitNames: Readonly<Record<LimitKind, string>> = {
  requests: 'requests per minute',
  tokens: 'tokens per minute',
  concurrent: 'requests at once',
  daily: 'tokens per day',
};

function limitReached({ kind, retryAfterMs, numbers, headers }: LimitRefusal): ApiError {
  const name = limitNames[kind];
  if (retryAfterMs === Number.POSITIVE_INFINITY) {
    const message =
      `the request needs ${numbers?.asked} tokens, and its key has a limit of ${numbers?.limit} ${name}: ` +
      'it can never be served with this key; send less text, or use a key with a higher limit';
    return new ApiError(400, message, { code: 'exceeds_key_limit', headers });
  }
  const seconds = Math.ceil(retryAfterMs / 1000);
  const message = `the key's limit of ${name} is reached${explained(numbers)}; try again in ${seconds} s`;
  return new ApiError(429, message, { code: 'rate_limit_exceeded', headers });
}

function explained(numbers: LimitRefusal['numbers']): string {
  if (numbers === undefined) return '';
  const { limit, used, left, asked } = numbers;
  const held = limit - used - left;
  const running = held > 0 ? `${held} held by running requests, ` : '';
  return `: of ${limit} tokens ${used} are used, ${running}${left} left, and the request needs ${asked}`;
}
