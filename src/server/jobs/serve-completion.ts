// Serves one completion request, whatever its protocol, cheapest checks first: parse the body, ask the limits of the key and
// the queue, wait for the model, encode the prompts, reserve their tokens, generate, and record what was used.

import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type AnswerPlan, type AnswerRequirements, planAnswer } from '../../generation/answer-plan.ts';
import type { Prompt } from '../../generation/context-room.ts';
import { fitToContext, roomOf } from '../../generation/context-room.ts';
import { Generation } from '../../generation/generation.ts';
import type { ParameterNames } from '../../generation/generation-error.ts';
import { expectedIds, type PromptInput } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { ServerContext } from '../context.ts';
import { isServerFault, kindOf, warn, warnOfUnknown } from '../http/errors.ts';
import { parseBody } from '../http/parse-body.ts';
import type { Framing } from '../http/sse.ts';
import type { AnswerBudget } from '../limits/answer-budget.ts';
import { truncated } from '../openai/schemas/request-options.ts';
import {
  choicesOf,
  type SamplingBody,
  samplingDefaults,
  stopsOf,
  streamsUsage,
  withDefaults,
} from '../openai/schemas/sampling.ts';
import { kvShareOf, priorityOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { RequestRecord, recorded } from '../request/request-record.ts';
import {
  type RequestContext,
  type RequestScope,
  requestContext,
  reserveTokens,
  withRequestScope,
} from '../request/request-scope.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import { CAPPED_HEADER, demandOf, earlyDemand, grantAnswers } from './answer-terms.ts';
import { type EditedPrompts, editedPrompts } from './edited-prompts.ts';
import { encodePrompts, tokensOf } from './encode-prompts.ts';
import type { Protocol } from './protocol.ts';
import { respondStream, respondWhole } from './respond.ts';
import { archiveRequest, type Resumption, resumptionOf } from './resumption.ts';
import { checkScoring, type Scoring } from './scored-prompts.ts';

export interface ServeOptions {
  readonly forceLow: boolean;
}

interface CompletionRequest extends RequestContext {
  readonly forceLow: boolean;
  readonly body: SamplingBody;
  readonly inputs: readonly PromptInput[];
  readonly choices: number;
  readonly names: ParameterNames;
  readonly maxTokens: number | undefined;
  readonly sampling: (model: ServedModel) => SamplingParameters;
  readonly responseFormat: AnswerRequirements | undefined;
  readonly echoes: boolean;
  readonly expectedText: string | undefined;
  readonly scoring: Scoring | undefined;
  readonly includeUsage: boolean;
  readonly idMark: string;
  readonly framing: Framing;
  readonly resumable: boolean;
  readonly resumption: Resumption | undefined;
  readonly check: (model: ServedModel) => readonly string[];
  /** The prompts that are left of `inputs` once the conversation is shortened. */
  readonly edited: (scope: RequestScope) => Promise<EditedPrompts>;
  readonly shape: (options: ShapeOptions) => AnswerShape;
}

interface CompletionJob extends CompletionRequest, RequestScope {
  readonly edits: object | undefined;
  readonly prompts: readonly Prompt[];
  readonly parameters: readonly SamplingParameters[];
  readonly plans: readonly AnswerPlan[] | undefined;
  readonly expected: Int32Array | undefined;
  /** Set where only the limits of the key say how long answers may be. */
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
  const incoming = requestContext(context, request, reply);
  const body = await protocol.read(given, incoming);
  const modelName = findEntry(context.pool, body.model).name;
  const { kind, idMark, framing, resumable } = protocol;
  const completion: CompletionRequest = {
    ...incoming,
    forceLow,
    body,
    inputs: kind.prompts(body, context.settings),
    choices: choicesOf(body, context.settings.maxChoices),
    names: kind.names(body),
    maxTokens: kind.maxTokens(body),
    sampling: (model) => kind.sampling(withDefaults(body, samplingDefaults(context.settings, model)), model),
    responseFormat: kind.responseFormat(body),
    echoes: kind.echoes(body),
    expectedText: kind.expected?.(body),
    scoring: kind.scoring?.(body),
    includeUsage: streamsUsage(body),
    idMark,
    framing,
    resumable,
    resumption,
    edited: (scope) => editedPrompts(protocol, given, body, scope),
    check: (model) => protocol.check?.(given, model, incoming) ?? [],
    shape: (options) => protocol.shape(options, given, incoming),
  };
  const { inputs, choices, maxTokens } = completion;
  const options = {
    modelName,
    demand: earlyDemand(completion, inputs.length, maxTokens),
    sequences: inputs.length * choices,
    idleMs: protocol.idleMs?.(given, incoming),
  };
  await withRequestScope(incoming, options, (scope) => serve(completion, scope));
  return reply;
}

async function serve(completion: CompletionRequest, scope: RequestScope): Promise<void> {
  const { context, caller, names, reply, expectedText, body } = completion;
  const { model, signal } = scope;
  warn(reply, completion.check(model));
  const { inputs, edits } = await completion.edited(scope);
  const sampling = endingWithGap(samplingFor(completion, model), inputs, model);
  const isWhole = body.truncate_prompt_tokens === undefined;
  const encoded = await encodePrompts(scope, inputs, () => names.prompt, isWhole);
  const prompts = truncated(body, encoded, roomOf(model));
  checkScoring(completion.scoring, tokensOf(prompts), completion.choices);
  const asked = prompts.map(({ ids }) => fitToContext(sampling, ids.length, roomOf(model), names));
  const plans = await planAnswers(completion, scope, prompts);
  const encoding = { encoder: context.encoders, account: caller.keyId, signal };
  const expected = await expectedIds(expectedText, model, encoding);
  const answers = { ...completion, ...scope, edits, prompts, parameters: asked };
  const reserved = await reserveTokens(scope, tokensOf(prompts), demandOf(answers));
  const { cappedTokens, ...granted } = grantAnswers(answers, scope.permit, reserved);
  if (cappedTokens !== undefined) reply.header(CAPPED_HEADER, String(cappedTokens));
  await run({ ...answers, ...granted, plans, expected });
}

/** A resumed request keeps the seed of the first time, so that it has the same answer. */
function samplingFor({ sampling, resumption }: CompletionRequest, model: ServedModel): SamplingParameters {
  const parameters = sampling(model);
  return resumption === undefined ? parameters : { ...parameters, seed: resumption.kept.seed };
}

/** An answer that fills a gap ends where the model begins another part of the file. */
function endingWithGap(
  sampling: SamplingParameters,
  inputs: readonly PromptInput[],
  { fillInMiddle }: ServedModel,
): SamplingParameters {
  if (sampling.ignoreEos || !inputs.some(({ kind }) => kind === 'gap')) return sampling;
  const stopIds = new Set([...sampling.stopIds, ...(fillInMiddle?.endIds ?? [])]);
  return { ...sampling, stopIds: [...stopIds] };
}

async function planAnswers(
  { context, responseFormat, caller, reply }: CompletionRequest,
  { model, signal }: RequestScope,
  prompts: readonly Prompt[],
): Promise<readonly AnswerPlan[] | undefined> {
  if (responseFormat === undefined) return undefined;
  const options = { account: caller.keyId, signal };
  const plans: AnswerPlan[] = [];
  for (const prompt of prompts) {
    plans.push(await planAnswer(model, prompt, responseFormat, context.grammars, options));
  }
  warn(reply, [...new Set(plans.flatMap((one) => one.notes))]);
  return plans;
}

async function run(job: CompletionJob): Promise<void> {
  const { caller, body, prompts, choices, parameters } = job;
  const record = new RequestRecord({
    ...job,
    kind: 'completion',
    tier: job.forceLow ? 'low' : caller.tier,
    stream: body.stream === true,
  });
  const echoes = await echoesOf(job);
  const generation = generationOf(job, record, echoes);
  const seed = (parameters[0] as SamplingParameters).seed;
  const archived = archiveRequest(job, record, seed);
  // A client that resumes the request later is charged only for the rest.
  const archiveUsage = async () => {
    if (await archived) await archiveRequest(job, record, seed, generation.usage);
  };
  const answer = async () => {
    const reasons = await respond(job, generation, record, echoes, archived);
    record.answered(reasons);
    const isWhole = reasons.length === prompts.length * choices;
    if (parameters[0]?.maxTokens === undefined && isWhole) recordLength(job, generation);
  };
  await recorded(record, generation, job, answer, () => void archiveUsage());
}

/** Answers that the limits cut short teach only that answers are longer than that. */
function recordLength(
  { context, caller, prompts, choices, budget }: CompletionJob,
  { usage }: Generation,
): void {
  const tokens = usage.completionTokens / (prompts.length * choices);
  const isLess = tokens < context.typicalAnswer.expect(caller.keyId, Number.POSITIVE_INFINITY);
  if (!(budget?.isSpent && isLess)) context.typicalAnswer.record(caller.keyId, tokens);
}

/** Where log-probabilities of the prompt are shown with it, they and its text come together. */
function showsScores({ echoes, scoring, parameters }: CompletionJob): boolean {
  return echoes && scoring !== undefined && parameters[0]?.logprobs !== undefined;
}

function generationOf(job: CompletionJob, record: RequestRecord, echoes: readonly string[]): Generation {
  const { context, body, caller, forceLow, signal, model } = job;
  const { prompts, choices, parameters, plans, expected } = job;
  return new Generation(
    {
      id: record.id,
      model,
      prompts,
      choices,
      parameters,
      plans,
      expected,
      scoring: job.scoring?.alternatives,
      scoredEchoes: showsScores(job) ? prompts.map((_, at) => echoes[at * choices] as string) : undefined,
      stops: stopsOf(body),
      special: body.skip_special_tokens === false,
      priority: forceLow ? 2 : priorityOf(caller),
      salt: saltOf(job),
      order: body.priority,
      showsStop: body.include_stop_str_in_output,
      maxAnswerMs:
        body.t_max_predict_ms !== undefined && body.t_max_predict_ms > 0 ? body.t_max_predict_ms : undefined,
      account: caller.keyId,
      kvShare: kvShareOf(caller, context.settings),
      enqueuedMs: record.arrivedMs,
      recover: job.resumption !== undefined,
      budget: job.budget,
      names: job.names,
    },
    signal,
    record,
  );
}

/** A salt of the request never opens what another key has. */
function saltOf({ context, caller, body }: CompletionJob): string {
  const own = context.settings.shareCache ? '' : caller.keyId;
  return body.cache_salt === undefined ? own : `${own}:${body.cache_salt}`;
}

async function respond(
  job: CompletionJob,
  generation: Generation,
  record: RequestRecord,
  echoes: readonly string[],
  archived: Promise<boolean>,
): Promise<FinishReason[]> {
  const { context, body, request, reply, signal, model, includeUsage } = job;
  const shape = job.shape({
    base: {
      id: record.id,
      created: Math.floor(record.arrivedMs / 1000),
      model: model.name,
      system_fingerprint: fingerprint(context, model),
      ...(body.service_tier === undefined ? {} : { service_tier: 'default' as const }),
    },
    model,
    logprobs: job.parameters[0]?.logprobs !== undefined,
    usageComes: includeUsage,
    prompts: job.prompts,
    parameters: job.parameters,
    choices: job.choices,
    promptTokens: tokensOf(job.prompts),
    edits: job.edits,
    promptText: (prompt) => promptText(job, prompt),
    cachedTokens: (prompt) => generation.cachedTokensOf(prompt),
    abort: job.abort,
    times: () => record.times,
  });
  const answer = {
    generation,
    shape,
    echoes: showsScores(job) ? echoes.map(() => '') : echoes,
    queued: record,
    charge: () => {
      const { completionTokens } = generation.usage;
      if (body.stream !== true && job.budget?.isSpent) reply.header(CAPPED_HEADER, String(completionTokens));
      return record.charge(generation.usage);
    },
  };
  if (body.stream !== true) return respondWhole(reply, answer);
  return respondStream(reply, answer, {
    framing: job.framing,
    archived,
    after: job.resumption?.after,
    keepAliveMs: context.settings.keepAliveMs,
    signal,
    onFailure: (error) => {
      record.failed(error);
      context.metrics.failed(kindOf(error));
      if (isServerFault(error)) request.log.error({ err: error }, 'stream failed');
    },
  });
}

async function echoesOf(job: CompletionJob): Promise<readonly string[]> {
  const { prompts, choices } = job;
  const echoes: string[] = [];
  for (const [at, { text }] of prompts.entries()) {
    const echo = job.echoes ? (text ?? (await promptText(job, at))) : '';
    for (let choice = 0; choice < choices; choice++) echoes.push(echo);
  }
  return echoes;
}

/** The prompt as the model sees it, with control tokens as they are spelled. */
function promptText({ context, caller, model, prompts, signal }: CompletionJob, at: number): Promise<string> {
  const { ids } = prompts[at] as Prompt;
  return context.encoders.decode(model, ids, { special: true }, { account: caller.keyId, signal });
}

/** Changes with whatever may change an answer: this program and the model's file. */
function fingerprint({ version, pool }: ServerContext, { name, path }: ServedModel): string {
  const entry = pool.list().find((one) => one.name === name);
  const text = JSON.stringify([version, name, path, entry?.createdSeconds]);
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
}
