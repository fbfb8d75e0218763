// What a request holds while it is served. It asks the limits of its key first, because that is cheap; then its deadline
// starts, it enters the queue, and it waits for its model.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ModelLease } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import type { LimitKind, LimitRefusal, Permit, TokenDemand, Weighed } from '../limits/key-limiter.ts';
import { notQueued, type QueueEntry } from './admission.ts';
import { type Caller, callerOf } from './auth.ts';
import { acquireModel } from './find-model.ts';

export interface RequestContext {
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly caller: Caller;
}

/** What every request holds that its key may send: released last. */
export interface AdmittedScope extends RequestContext {
  /** A permit that is not settled when the scope ends is settled with no tokens used. */
  readonly permit: Permit;
  readonly signal: AbortSignal;
  /** Ends the request: with an ApiError, or with ClientLeft where the client has left. */
  abort(reason: Error): void;
  /** Holds the permit until the promise resolves: the answer is sent, but it is not known yet what it used. */
  settleAfter(charged: Promise<void>): void;
}

export interface QueuedScope extends AdmittedScope {
  readonly queueEntry: QueueEntry;
}

/** Resources a request holds; released in reverse order. */
export interface RequestScope extends QueuedScope {
  readonly model: ServedModel;
  readonly loadMs: number;
}

interface QueueOptions {
  readonly modelName: string;
  /** How many of its sequences the engine will run. A request with none does not enter the queue. */
  readonly sequences: number;
}

interface ModelOptions extends QueueOptions {
  /** How long the model stays loaded while it is unused; absent where the request does not say. */
  readonly idleMs?: number | undefined;
}

interface ScopeOptions extends ModelOptions {
  /** What is known of the tokens it will use, so that a request without a chance does not wait for a model. */
  readonly demand: TokenDemand;
}

export function requestContext(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): RequestContext {
  return { context, request, reply, caller: callerOf(request) };
}

export async function withRequestScope<Result>(
  given: RequestContext,
  { demand, ...options }: ScopeOptions,
  use: (scope: RequestScope) => Promise<Result>,
): Promise<Result> {
  return withAdmission(given, demand, (admitted) =>
    withQueueEntry(admitted, options, (queued) => {
      const { context, signal, caller } = queued;
      const lease = () => acquireModel(context.pool, options.modelName, signal, caller.background);
      return withModel(queued, options, lease, use);
    }),
  );
}

export async function withAdmission<Result>(
  given: RequestContext,
  demand: TokenDemand,
  use: (scope: AdmittedScope) => Promise<Result>,
): Promise<Result> {
  const { context, request, reply } = given;
  const permit = await admit(given, demand);
  const held: (() => void)[] = [() => permit.settle(0, Date.now())];
  let charged: Promise<void> | undefined;
  const settleAfter = (promise: Promise<void>) => {
    charged = promise;
  };
  try {
    const { signal, abort, end } = context.activity.begin(request, reply, context.settings.requestTimeoutMs);
    held.push(end);
    return await use({ ...given, permit, signal, abort, settleAfter });
  } finally {
    if (charged === undefined) release(held);
    else void charged.finally(() => release(held));
  }
}

/** Throws where the queue is full. */
export async function withQueueEntry<Result>(
  admitted: AdmittedScope,
  { modelName, sequences }: QueueOptions,
  use: (scope: QueuedScope) => Promise<Result>,
): Promise<Result> {
  const queueEntry = sequences === 0 ? notQueued : enqueue(admitted, modelName, sequences);
  try {
    return await use({ ...admitted, queueEntry });
  } finally {
    queueEntry.leave();
  }
}

/** `acquire` waits until the model is there. */
export async function withModel<Result>(
  queued: QueuedScope,
  { sequences, idleMs }: ModelOptions,
  acquire: () => Promise<ModelLease>,
  use: (scope: RequestScope) => Promise<Result>,
): Promise<Result> {
  const askedMs = performance.now();
  const lease = await acquire();
  const { model } = lease;
  try {
    // An answer without batching is right, but slow, and others wait for it.
    if (model.direct && sequences > 0) queued.reply.header('x-chairlift-mode', 'direct');
    return await use({ ...queued, model, loadMs: performance.now() - askedMs });
  } finally {
    lease.release(idleMs);
  }
}

function release(held: readonly (() => void)[]): void {
  for (const end of held.toReversed()) end();
}

function enqueue({ context, caller }: RequestContext, modelName: string, sequences: number): QueueEntry {
  const { keyId: account, background } = caller;
  return context.admission.enter(modelName, { account, background, sequences });
}

async function admit({ context, reply, caller }: RequestContext, demand: TokenDemand): Promise<Permit> {
  const { keyId, limits } = caller;
  const admitted = await context.limiter.admit(keyId, limits, Date.now(), demand);
  if (!admitted.ok) throw limitReached(admitted);
  reply.headers(admitted.headers);
  return admitted.permit;
}

/** Counts the prompts in the queue and holds tokens of the key's limits; throws where either is too much. */
export async function reserveTokens(
  { reply, permit, queueEntry }: Pick<RequestScope, 'reply' | 'permit' | 'queueEntry'>,
  promptTokens: number,
  demand: TokenDemand,
): Promise<Extract<Weighed, { ok: true }>> {
  queueEntry.weigh(promptTokens);
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
