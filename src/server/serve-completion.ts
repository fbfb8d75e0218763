// Takes one completion request through the house: reads it, waits for its model, encodes its prompts, asks the
// queue and the limits, runs it, and settles the account however it ends.

import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BLOCK_TOKENS } from '../compute/backend.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import { Account } from './account.ts';
import { type Lifetime, orAbort } from './activity.ts';
import type { QueueTicket } from './admission.ts';
import { type Caller, priorityOf } from './auth.ts';
import type { CompletionKind, Prompt } from './completion-kind.ts';
import { type AnswerReason, CompletionRun } from './completion-run.ts';
import type { ServerContext } from './context.ts';
import { ApiError, contextExceeded, isServerFault, kindOf } from './errors.ts';
import type { LimitKind, LimitRefusal } from './limits/limiter.ts';
import { acquireModel, findEntry } from './models.ts';
import { respondStream, respondWhole } from './respond.ts';
import { parseBody, unknownWarning } from './schemas/parse.ts';
import { choicesOf, type SamplingBody, stopsOf, streamsUsage } from './schemas/sampling.ts';

export interface ServeOptions {
  /** Whatever the key's tier. */
  readonly forceLow: boolean;
}

/** What is known of a request while it is in the house. */
interface Visit<Body> {
  readonly context: ServerContext;
  readonly kind: CompletionKind<Body>;
  readonly body: Body & SamplingBody;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly lifetime: Lifetime;
  readonly ticket: QueueTicket;
  readonly forceLow: boolean;
  /** As the pool knows it. */
  readonly modelName: string;
}

export async function serveCompletion<Body extends SamplingBody>(
  context: ServerContext,
  kind: CompletionKind<Body>,
  request: FastifyRequest,
  reply: FastifyReply,
  { forceLow }: ServeOptions,
): Promise<FastifyReply> {
  const caller = request.caller as Caller;
  const { body, unknown } = parseBody(kind.rules, request.body);
  if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
  const modelName = findEntry(context.pool, body.model).name;
  const lifetime = context.activity.begin(request, reply, context.settings.requestTimeoutMs);
  try {
    const ticket = context.admission.enter(modelName, caller.keyId);
    try {
      await visit({ context, kind, body, caller, request, reply, lifetime, ticket, forceLow, modelName });
    } finally {
      ticket.leave();
    }
  } finally {
    lifetime.end();
  }
  return reply;
}

async function visit<Body>(of: Visit<Body>): Promise<void> {
  const { context, kind, body, lifetime } = of;
  const includeUsage = streamsUsage(body);
  const choices = choicesOf(body, context.settings.maxChoices);
  const lease = await acquireModel(context.pool, of.modelName, lifetime.signal);
  try {
    const { model } = lease;
    const parameters = kind.sampling(body, model.spec.vocabSize);
    const prompts = await orAbort(kind.prompts(body, model, context), lifetime.signal);
    if (context.settings.logPrompts) {
      of.request.log.info({ prompts: prompts.map(({ text, ids }) => text ?? [...ids]) }, 'prompts');
    }
    const fitted = prompts.map(({ ids }) => fitToContext(parameters, ids.length, model, kind.promptParam));
    of.ticket.weigh(prompts.reduce((sum, { ids }) => sum + ids.length, 0));
    await run(of, model, { prompts, parameters: fitted, choices, includeUsage });
  } finally {
    lease.release();
  }
}

interface Work {
  readonly prompts: readonly Prompt[];
  /** Of each prompt. */
  readonly parameters: readonly SamplingParameters[];
  readonly choices: number;
  readonly includeUsage: boolean;
}

async function run<Body>(of: Visit<Body>, model: ServedModel, work: Work): Promise<void> {
  const { context, caller, reply } = of;
  const { prompts, parameters, choices } = work;
  // Of an answer without a limit, what those of the key usually take.
  const answerTokens = (at: number, promptTokens: number) =>
    parameters[at]?.maxTokens ?? context.typicalAnswer.expect(caller.keyId, roomOf(model) - promptTokens);
  const expected = prompts.reduce(
    (sum, { ids }, at) => sum + ids.length + choices * answerTokens(at, ids.length),
    0,
  );
  const account = new Account({
    ...of,
    modelName: model.name,
    tier: of.forceLow ? 'low' : caller.tier,
    idMark: of.kind.idMark,
    stream: of.body.stream === true,
  });
  const engineRun = makeRun(of, model, work, account);
  const admitted = context.limiter.admit(caller.keyId, caller.limits, Date.now(), expected);
  if (!admitted.ok) throw limitReached(admitted);
  const refusal = admitted.permit.weigh(expected, Date.now());
  if (refusal !== undefined) throw limitReached(refusal);
  reply.headers(context.limiter.headers(caller.keyId, caller.limits, Date.now()));
  try {
    account.answered(await respond(of, model, work, engineRun, account));
  } catch (error) {
    account.failed(error);
    throw error;
  } finally {
    const { promptTokens, completionTokens } = account.close(engineRun);
    admitted.permit.settle(promptTokens + completionTokens, Date.now());
    if (parameters[0]?.maxTokens === undefined) {
      context.typicalAnswer.learn(caller.keyId, completionTokens / (prompts.length * choices));
    }
  }
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

function makeRun<Body>(of: Visit<Body>, model: ServedModel, work: Work, account: Account): CompletionRun {
  const { context, kind, body, caller, forceLow, lifetime } = of;
  context.metrics.watch(model);
  if (model.direct) context.metrics.fellBack(model.name);
  return new CompletionRun(
    {
      id: account.id,
      model,
      prompts: work.prompts.map(({ ids }) => ids),
      choices: work.choices,
      parameters: work.parameters,
      stops: stopsOf(body),
      special: body.skip_special_tokens === false,
      continuation: kind.continuation,
      priority: forceLow ? 2 : priorityOf(caller),
      tenant: context.settings.shareCache ? '' : caller.keyId,
      account: caller.keyId,
      enqueuedMs: account.arrivedMs,
    },
    lifetime.signal,
    account,
  );
}

function respond<Body>(
  { context, kind, body, request, reply, lifetime }: Visit<Body>,
  model: ServedModel,
  { prompts, parameters, choices, includeUsage }: Work,
  engineRun: CompletionRun,
  account: Account,
): Promise<AnswerReason[]> {
  const shape = kind.shape({
    base: {
      id: account.id,
      created: Math.floor(account.arrivedMs / 1000),
      model: model.name,
      system_fingerprint: fingerprint(context, model),
    },
    model,
    logprobs: parameters[0]?.logprobs !== undefined,
    usageComes: includeUsage,
  });
  const echoes = prompts.flatMap(({ echo = '' }) => Array.from({ length: choices }, () => echo));
  const answer = { run: engineRun, shape, echoes };
  if (body.stream !== true) return respondWhole(reply, answer);
  return respondStream(reply, answer, {
    includeUsage,
    keepAliveMs: context.settings.keepAliveMs,
    signal: lifetime.signal,
    onFailure: (error) => {
      account.failed(error);
      context.metrics.failed(kindOf(error));
      if (isServerFault(error)) request.log.error({ err: error }, 'stream failed');
    },
  });
}

/** Prompt and answer together. */
function roomOf({ spec, blockCount }: ServedModel): number {
  return Math.min(spec.contextLength, blockCount * BLOCK_TOKENS);
}

/** An answer may be cut short by the context, but a prompt must leave room for at least one token. */
function fitToContext(
  parameters: SamplingParameters,
  promptTokens: number,
  model: ServedModel,
  param: string,
): SamplingParameters {
  const room = roomOf(model) - promptTokens;
  if (promptTokens === 0) {
    throw new ApiError(400, `${param}: is empty, and this model needs something to start from`, {
      param,
      code: 'invalid_value',
    });
  }
  if (room < 1) throw contextExceeded(param, promptTokens, roomOf(model));
  const { maxTokens, minTokens } = parameters;
  if (minTokens > room) {
    throw new ApiError(400, `min_tokens: ${minTokens} do not fit; the prompt leaves room for ${room}`, {
      param: 'min_tokens',
      code: 'context_length_exceeded',
    });
  }
  return maxTokens === undefined ? parameters : { ...parameters, maxTokens: Math.min(maxTokens, room) };
}

/** Changes with whatever may change an answer: this program and the model's file. */
function fingerprint({ version, pool }: ServerContext, { name, path }: ServedModel): string {
  const entry = pool.list().find((one) => one.name === name);
  const text = JSON.stringify([version, name, path, entry?.createdSeconds]);
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
}
