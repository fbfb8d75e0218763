// Takes one completion request through the house, what is cheap first: reads it, asks the limits of its key and the
// door of the queue, waits for its model, encodes its prompts, weighs them, runs it, and settles however it ends.

import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type AnswerPlan, type AnswerWish, planAnswer } from '../../generation/answer-plan.ts';
import { fitToContext, roomOf } from '../../generation/context-room.ts';
import { expectedIds } from '../../generation/expected-answer.ts';
import { Generation } from '../../generation/generation.ts';
import type { ParameterNames } from '../../generation/parameter-names.ts';
import type { Prompt, PromptInput } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { ServerContext } from '../context.ts';
import { isServerFault, kindOf } from '../http/errors.ts';
import { parseBody, warnOfUnknown } from '../http/parse-body.ts';
import type { Framing } from '../http/sse.ts';
import { warn } from '../http/warn.ts';
import type { AnswerBudget } from '../limits/answer-budget.ts';
import { choicesOf, type SamplingBody, stopsOf, streamsUsage } from '../openai/schemas/sampling.ts';
import { type Caller, kvShareOf, priorityOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { RequestRecord, recorded } from '../request/request-record.ts';
import { type Visit, visit, weigh } from '../request/request-scope.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import { CAPPED_HEADER, demandOf, earlyDemand, grantAnswers } from './answer-terms.ts';
import { encodePrompts, tokensOf } from './encode-prompts.ts';
import type { Protocol } from './protocol.ts';
import { respondStream, respondWhole } from './respond.ts';
import { type CountedTokens, type Resumption, resumptionOf } from './resumption.ts';
import { samplingDefaults, withDefaults } from './sampling-defaults.ts';

export interface ServeOptions {
  /** Whatever the key's tier. */
  readonly forceLow: boolean;
}

/** What is known of a request from its body and its key. */
interface Order {
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly caller: Caller;
  readonly forceLow: boolean;
  readonly body: SamplingBody;
  readonly inputs: readonly PromptInput[];
  /** Answers to each prompt. */
  readonly choices: number;
  readonly names: ParameterNames;
  /** Undefined where an answer may be as long as the context allows. */
  readonly maxTokens: number | undefined;
  readonly sampling: (model: ServedModel) => SamplingParameters;
  readonly wish: AnswerWish | undefined;
  /** Each answer begins with its prompt. */
  readonly echoes: boolean;
  /** What the answer will probably be. */
  readonly expectedText: string | undefined;
  /** A stream ends with what was used. */
  readonly includeUsage: boolean;
  readonly idMark: string;
  readonly framing: Framing;
  readonly resumable: boolean;
  /** What the client has come back to. */
  readonly resumption: Resumption | undefined;
  readonly check: (model: ServedModel) => readonly string[];
  readonly shape: (options: ShapeOptions) => AnswerShape;
}

/** An order whose model is there. */
interface Work extends Order, Visit {
  readonly prompts: readonly Prompt[];
  /** Of each prompt. */
  readonly parameters: readonly SamplingParameters[];
  /** Of each prompt, where more than text is asked for. */
  readonly plans: readonly AnswerPlan[] | undefined;
  readonly expected: Int32Array | undefined;
  /** Where only the limits of the key say how long answers may be. */
  readonly budget: AnswerBudget | undefined;
}

export async function serveCompletion<Schema extends z.ZodObject, Body extends SamplingBody>(
  context: ServerContext,
  protocol: Protocol<Schema, Body>,
  request: FastifyRequest,
  reply: FastifyReply,
  { forceLow }: ServeOptions,
): Promise<FastifyReply> {
  const resumption = protocol.resumable ? await resumptionOf(context, request) : undefined;
  const sent = resumption === undefined ? request.body : (JSON.parse(resumption.kept.body) as unknown);
  const { body: given, unknown } = parseBody(protocol.rules, sent);
  warnOfUnknown(reply, unknown);
  const asked = { context, request };
  const body = await protocol.read(given, asked);
  const modelName = findEntry(context.pool, body.model).name;
  const { kind, idMark, framing, resumable } = protocol;
  const order: Order = {
    ...asked,
    reply,
    caller: request.caller as Caller,
    forceLow,
    body,
    inputs: kind.prompts(body, context.settings),
    choices: choicesOf(body, context.settings.maxChoices),
    names: kind.names(body),
    maxTokens: kind.maxTokens(body),
    sampling: (model) =>
      kind.sampling(withDefaults(body, samplingDefaults(context.settings, model)), model.spec.vocabSize),
    wish: kind.wish(body),
    echoes: kind.echoes(body),
    expectedText: kind.expected?.(body),
    includeUsage: streamsUsage(body),
    idMark,
    framing,
    resumable,
    resumption,
    check: (model) => protocol.check?.(given, model, asked) ?? [],
    shape: (options) => protocol.shape(options, given, asked),
  };
  const terms = {
    modelName,
    demand: earlyDemand(order, order.inputs.length, order.maxTokens),
    sequences: order.inputs.length * order.choices,
    idleMs: protocol.idleMs?.(given, asked),
  };
  await visit(context, request, reply, terms, (place) => serve(order, place));
  return reply;
}

async function serve(order: Order, place: Visit): Promise<void> {
  const { names, inputs, reply } = order;
  const { model } = place;
  warn(reply, order.check(model));
  const sampling = endingWithGap(drawn(order, model), inputs, model);
  const prompts = await encodePrompts({ ...order, nameOf: () => names.prompt }, place);
  const asked = prompts.map(({ ids }) => fitToContext(sampling, ids.length, roomOf(model), names));
  const plans = await plan(order, place, prompts);
  const { context, caller, expectedText } = order;
  const encoding = { encoder: context.encoders, account: caller.keyId, signal: place.signal };
  const expected = await expectedIds(expectedText, model, encoding);
  const answers = { ...order, ...place, prompts, parameters: asked };
  const weighed = await weigh(answers, tokensOf(prompts), demandOf(answers));
  const { cappedTokens, ...granted } = grantAnswers(answers, place.permit, weighed);
  if (cappedTokens !== undefined) reply.header(CAPPED_HEADER, String(cappedTokens));
  await run({ ...answers, ...granted, plans, expected });
}

/** What chance decided when the request first came stays. */
function drawn({ sampling, resumption }: Order, model: ServedModel): SamplingParameters {
  const parameters = sampling(model);
  return resumption === undefined ? parameters : { ...parameters, seed: resumption.kept.seed };
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

async function plan(
  { context, wish, caller, reply }: Order,
  { model, signal }: Visit,
  prompts: readonly Prompt[],
): Promise<readonly AnswerPlan[] | undefined> {
  if (wish === undefined) return undefined;
  const plans: AnswerPlan[] = [];
  for (const prompt of prompts) {
    plans.push(await planAnswer(model, prompt, wish, context.grammars, { account: caller.keyId, signal }));
  }
  const notes = [...new Set(plans.flatMap((one) => one.notes))];
  warn(
    reply,
    notes.map((note) => `not enforced: ${note}`),
  );
  return plans;
}

async function run(work: Work): Promise<void> {
  const { caller, body, prompts, choices, parameters } = work;
  const record = new RequestRecord({
    ...work,
    kind: 'completion',
    tier: work.forceLow ? 'low' : caller.tier,
    stream: body.stream === true,
  });
  const generation = generationOf(work, record);
  const kept = keep(work, record);
  // Whoever comes back later is charged for the rest alone.
  const counted = async () => {
    if (await kept) await keep(work, record, generation.usage);
  };
  const answer = async () => {
    const reasons = await respond(work, generation, record, kept);
    record.answered(reasons);
    const isWhole = reasons.length === prompts.length * choices;
    if (parameters[0]?.maxTokens === undefined && isWhole) learn(work, generation);
  };
  await recorded(record, generation, work, answer, () => void counted());
}

/** Of answers that were cut short by the limits it is only known that they would have been longer. */
function learn({ context, caller, prompts, choices, budget }: Work, { usage }: Generation): void {
  const tokens = usage.completionTokens / (prompts.length * choices);
  const isLess = tokens < context.typicalAnswer.expect(caller.keyId, Number.POSITIVE_INFINITY);
  if (!(budget?.isSpent && isLess)) context.typicalAnswer.learn(caller.keyId, tokens);
}

/** Whether the client may come back to it. What cannot be kept is answered all the same. */
async function keep(work: Work, record: RequestRecord, counted?: CountedTokens): Promise<boolean> {
  const { context, request, caller, resumable, resumption, parameters } = work;
  if (context.archive === undefined || !resumable) return false;
  if (resumption !== undefined && counted === undefined) return true;
  // The request itself goes first: what carries both would hold it up.
  await setImmediate();
  try {
    await context.archive.keep({
      id: request.id,
      keyId: caller.keyId,
      route: request.routeOptions.url ?? '',
      body: resumption?.kept.body ?? JSON.stringify(request.body),
      answerId: record.id,
      seed: (parameters[0] as SamplingParameters).seed,
      arrivedMs: record.arrivedMs,
      counted,
    });
    return true;
  } catch (error) {
    request.log.warn({ err: error }, 'a request cannot be kept: its client cannot come back to it');
    return false;
  }
}

function generationOf(work: Work, record: RequestRecord): Generation {
  const { context, body, caller, forceLow, signal, model } = work;
  const { prompts, choices, parameters, plans, expected } = work;
  return new Generation(
    {
      id: record.id,
      model,
      prompts,
      choices,
      parameters,
      plans,
      expected,
      stops: stopsOf(body),
      special: body.skip_special_tokens === false,
      priority: forceLow ? 2 : priorityOf(caller),
      salt: context.settings.shareCache ? '' : caller.keyId,
      account: caller.keyId,
      kvShare: kvShareOf(caller, context.settings),
      enqueuedMs: record.arrivedMs,
      recover: work.resumption !== undefined,
      budget: work.budget,
      names: work.names,
    },
    signal,
    record,
  );
}

async function respond(
  work: Work,
  generation: Generation,
  record: RequestRecord,
  kept: Promise<boolean>,
): Promise<FinishReason[]> {
  const { context, body, request, reply, signal, model, includeUsage } = work;
  const shape = work.shape({
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
    promptTokens: tokensOf(work.prompts),
    abort: work.abort,
    times: () => record.times,
  });
  const answer = {
    generation,
    shape,
    echoes: await echoesOf(work),
    queued: record,
    charge: () => {
      const { completionTokens } = generation.usage;
      if (body.stream !== true && work.budget?.isSpent) reply.header(CAPPED_HEADER, String(completionTokens));
      return record.charge(generation.usage);
    },
  };
  if (body.stream !== true) return respondWhole(reply, answer);
  return respondStream(reply, answer, {
    framing: work.framing,
    kept,
    after: work.resumption?.after,
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
async function echoesOf(work: Work): Promise<readonly string[]> {
  const { context, caller, model, prompts, choices, signal } = work;
  const account = caller.keyId;
  const echoes: string[] = [];
  for (const { ids, text } of prompts) {
    const echo = !work.echoes
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
