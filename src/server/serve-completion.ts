// Takes one completion request through the house, what is cheap first: reads it, asks the limits of its key and the
// door of the queue, waits for its model, encodes its prompts, weighs them, runs it, and settles however it ends.

import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { fitToContext, roomOf } from '../generation/context-room.ts';
import { Generation } from '../generation/generation.ts';
import { type Prompt, type PromptInput, readPrompt } from '../generation/prompt.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import type { QueueTicket } from './admission.ts';
import { type Caller, priorityOf } from './auth.ts';
import type { CompletionKind } from './completion-kind.ts';
import type { ServerContext } from './context.ts';
import { isServerFault, kindOf } from './errors.ts';
import { findEntry } from './models.ts';
import { RequestRecord } from './request-record.ts';
import { respondStream, respondWhole } from './respond.ts';
import { samplingDefaults, withDefaults } from './sampling-defaults.ts';
import { parseBody, unknownWarning } from './schemas/parse.ts';
import { choicesOf, type SamplingBody, stopsOf, streamsUsage } from './schemas/sampling.ts';
import { limitReached, type Stay, stay, withModel } from './stay.ts';

export interface ServeOptions {
  /** Whatever the key's tier. */
  readonly forceLow: boolean;
}

/** What is known of a request from its body and its key. */
interface Order<Body> {
  readonly context: ServerContext;
  readonly kind: CompletionKind<Body>;
  readonly body: Body & SamplingBody;
  readonly inputs: readonly PromptInput[];
  /** Answers to each prompt. */
  readonly choices: number;
  /** A stream ends with what was used. */
  readonly includeUsage: boolean;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly forceLow: boolean;
}

/** An order whose model is there. */
interface Work<Body> extends Order<Body>, Stay {
  readonly model: ServedModel;
  readonly ticket: QueueTicket;
  readonly prompts: readonly Prompt[];
  /** Of each prompt. */
  readonly parameters: readonly SamplingParameters[];
}

export async function serveCompletion<Body extends SamplingBody>(
  context: ServerContext,
  kind: CompletionKind<Body>,
  request: FastifyRequest,
  reply: FastifyReply,
  { forceLow }: ServeOptions,
): Promise<FastifyReply> {
  const { body, unknown } = parseBody(kind.rules, request.body);
  if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
  const modelName = findEntry(context.pool, body.model).name;
  const order: Order<Body> = {
    context,
    kind,
    body,
    inputs: kind.prompts(body, context.settings),
    choices: choicesOf(body, context.settings.maxChoices),
    includeUsage: streamsUsage(body),
    caller: request.caller as Caller,
    request,
    reply,
    forceLow,
  };
  await stay(context, request, reply, leastTokens(order), async (place) => {
    const ticket = context.admission.enter(modelName, order.caller.keyId);
    try {
      await withModel(context, modelName, place.signal, (model) => serve(order, place, ticket, model));
    } finally {
      ticket.leave();
    }
  });
  return reply;
}

/** A token of each prompt, and its answers; what is asked for beyond the usual may be more than the context holds. */
function leastTokens<Body>({ context, kind, body, inputs, choices, caller }: Order<Body>): number {
  const usual = context.typicalAnswer.expect(
    caller.keyId,
    Number.POSITIVE_INFINITY,
    caller.limits.dailyTokens,
  );
  return inputs.length * (1 + choices * Math.min(usual, kind.maxTokens(body) ?? usual));
}

async function serve<Body>(
  order: Order<Body>,
  place: Stay,
  ticket: QueueTicket,
  model: ServedModel,
): Promise<void> {
  const { context, kind, body, request, reply } = order;
  // For the client's eyes: its answer is right, but slow, and others wait for it.
  if (model.direct) reply.header('x-chairlift-mode', 'direct');
  const defaults = samplingDefaults(context.settings, model);
  const asked = kind.sampling(withDefaults(body, defaults), model.spec.vocabSize);
  const sampling = endingWithGap(asked, order.inputs, model);
  const names = kind.names(body);
  const prompts = await encode(order, place.signal, model, names.prompt);
  if (context.settings.logPrompts) {
    request.log.info({ prompts: prompts.map(({ text, ids }) => text ?? [...ids]) }, 'prompts');
  }
  const parameters = prompts.map(({ ids }) => fitToContext(sampling, ids.length, roomOf(model), names));
  const work: Work<Body> = { ...order, ...place, ticket, model, prompts, parameters };
  weigh(work);
  await run(work);
}

/** What fills a gap ends where the model goes on to the next. */
function endingWithGap(
  sampling: SamplingParameters,
  inputs: readonly PromptInput[],
  { fillInMiddle }: ServedModel,
): SamplingParameters {
  if (sampling.ignoreEos || !inputs.some(({ kind }) => kind === 'gap')) return sampling;
  const stopIds = new Set([...sampling.stopIds, ...(fillInMiddle?.endIds ?? [])]);
  return { ...sampling, stopIds: [...stopIds] };
}

/** One after the other: between two prompts of a request it is others' turn. */
async function encode<Body>(
  { context, inputs, caller }: Order<Body>,
  signal: AbortSignal,
  model: ServedModel,
  parameter: string,
): Promise<readonly Prompt[]> {
  const { encoders: encoder, settings: limits } = context;
  const options = { encoder, account: caller.keyId, signal, parameter, limits };
  const prompts: Prompt[] = [];
  for (const input of inputs) prompts.push(await readPrompt(input, model, options));
  return prompts;
}

/** What waits for its first token, and what the key will have used when all is done. */
function weigh<Body>({ context, caller, reply, permit, ticket, ...work }: Work<Body>): void {
  const { model, prompts, parameters, choices } = work;
  const { keyId, limits } = caller;
  ticket.weigh(prompts.reduce((sum, { ids }) => sum + ids.length, 0));
  // Of an answer without a limit, what those of the key usually take.
  const answerTokens = (at: number, promptTokens: number) =>
    parameters[at]?.maxTokens ??
    context.typicalAnswer.expect(keyId, roomOf(model) - promptTokens, limits.dailyTokens);
  const expected = prompts.reduce(
    (sum, { ids }, at) => sum + ids.length + choices * answerTokens(at, ids.length),
    0,
  );
  const refusal = permit.weigh(expected, Date.now());
  if (refusal !== undefined) throw limitReached(refusal);
  reply.headers(context.limiter.headers(keyId, limits, Date.now()));
}

async function run<Body>(work: Work<Body>): Promise<void> {
  const { context, caller, kind, body, model, prompts, choices, parameters, permit } = work;
  const record = new RequestRecord({
    ...work,
    modelName: model.name,
    tier: work.forceLow ? 'low' : caller.tier,
    idMark: kind.idMark,
    stream: body.stream === true,
  });
  const generation = generationOf(work, record);
  try {
    const reasons = await respond(work, generation, record);
    record.answered(reasons);
    const answers = prompts.length * choices;
    if (parameters[0]?.maxTokens === undefined && reasons.length === answers) {
      context.typicalAnswer.learn(caller.keyId, generation.usage.completionTokens / answers);
    }
  } catch (error) {
    record.failed(error);
    throw error;
  } finally {
    const { promptTokens, completionTokens } = record.close(generation);
    permit.settle(promptTokens + completionTokens, Date.now());
  }
}

function generationOf<Body>(work: Work<Body>, record: RequestRecord): Generation {
  const { context, kind, body, caller, forceLow, signal, model, prompts, choices, parameters } = work;
  context.metrics.watch(model);
  if (model.direct) context.metrics.fellBack(model.name);
  return new Generation(
    {
      id: record.id,
      model,
      prompts,
      choices,
      parameters,
      stops: stopsOf(body),
      special: body.skip_special_tokens === false,
      priority: forceLow ? 2 : priorityOf(caller),
      salt: context.settings.shareCache ? '' : caller.keyId,
      account: caller.keyId,
      enqueuedMs: record.arrivedMs,
      names: kind.names(body),
    },
    signal,
    record,
  );
}

async function respond<Body>(
  work: Work<Body>,
  generation: Generation,
  record: RequestRecord,
): Promise<FinishReason[]> {
  const { context, kind, body, request, reply, signal, model, includeUsage } = work;
  const shape = kind.shape({
    base: {
      id: record.id,
      created: Math.floor(record.arrivedMs / 1000),
      model: model.name,
      system_fingerprint: fingerprint(context, model),
      ...(body.service_tier === undefined ? {} : { service_tier: 'default' as const }),
    },
    model,
    logprobs: work.parameters[0]?.logprobs !== undefined,
    usageComes: includeUsage,
  });
  const answer = { generation, shape, echoes: await echoesOf(work) };
  if (body.stream !== true) return respondWhole(reply, answer);
  return respondStream(reply, answer, {
    includeUsage,
    keepAliveMs: context.settings.keepAliveMs,
    signal,
    onFailure: (error) => {
      record.failed(error);
      context.metrics.failed(kindOf(error));
      if (isServerFault(error)) request.log.error({ err: error }, 'stream failed');
    },
  });
}

/** Of each choice, what is shown before its answer. */
async function echoesOf<Body>(work: Work<Body>): Promise<readonly string[]> {
  const { context, kind, body, caller, model, prompts, choices, signal } = work;
  const account = caller.keyId;
  const echoes: string[] = [];
  for (const { ids, text } of prompts) {
    const echo = !kind.echoes(body)
      ? ''
      : (text ?? (await context.encoders.decode(model, ids, { special: true }, { account, signal })));
    for (let choice = 0; choice < choices; choice++) echoes.push(echo);
  }
  return echoes;
}

/** Changes with whatever may change an answer: this program and the model's file. */
function fingerprint({ version, pool }: ServerContext, { name, path }: ServedModel): string {
  const entry = pool.list().find((one) => one.name === name);
  const text = JSON.stringify([version, name, path, entry?.createdSeconds]);
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
}
