// Answers a completion with a model that is here: encodes the prompts, reserves their tokens, generates, and records what was used.

import { type AnswerPlan, planAnswer } from '../../generation/answer-plan.ts';
import type { Prompt } from '../../generation/context-room.ts';
import { fitToContext, roomOf, withImages } from '../../generation/context-room.ts';
import { Generation } from '../../generation/generation.ts';
import { expectedIds, type PromptInput } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { AnswerBasis } from '../context.ts';
import { warn } from '../http/errors.ts';
import type { AnswerBudget } from '../limits/answer-budget.ts';
import { truncated } from '../openai/schemas/request-options.ts';
import { stopsOf } from '../openai/schemas/sampling.ts';
import { kvShareOf, priorityOf } from '../request/auth.ts';
import { RequestRecord, recorded } from '../request/request-record.ts';
import { type RequestScope, reserveTokens } from '../request/request-scope.ts';
import { CAPPED_HEADER, demandOf, grantAnswers } from './answer-terms.ts';
import type { CompletionRequest } from './completion-request.ts';
import { encodePrompts, recordedPrompts, tokensOf } from './encode-prompts.ts';
import { archiveRequest, basisOf, checkBasis, knownTokens } from './resumption.ts';
import { checkScoring } from './scored-prompts.ts';
import { answerBase, sendAnswer, shapeBasis } from './send-answer.ts';

interface CompletionJob extends CompletionRequest, RequestScope {
  readonly edits: object | undefined;
  readonly prompts: readonly Prompt[];
  readonly parameters: readonly SamplingParameters[];
  readonly plans: readonly AnswerPlan[] | undefined;
  readonly expected: Int32Array | undefined;
  /** Set where only the limits of the key say how long answers may be. */
  readonly budget: AnswerBudget | undefined;
  readonly basis: AnswerBasis;
}

export async function serveLocal(completion: CompletionRequest, scope: RequestScope): Promise<void> {
  const { context, caller, names, reply, expectedText, body } = completion;
  const { model, signal } = scope;
  warn(reply, completion.check(model));
  const { inputs, edits } = await completion.edited(scope);
  const sampling = endingWithGap(samplingFor(completion, model), inputs, model);
  const isWhole = body.truncate_prompt_tokens === undefined;
  const encoded = await encodePrompts(scope, inputs, () => names.prompt, isWhole, arrivalOf(completion));
  const prompts = truncated(body, encoded, roomOf(model));
  checkScoring(completion.scoring, tokensOf(prompts), completion.choices);
  const asked = prompts.map(({ ids }) => fitToContext(sampling, ids.length, roomOf(model), names));
  const plans = await planAnswers(completion, scope, prompts);
  const encoding = { encoder: context.encoders, account: caller.keyId, signal };
  const expected = await expectedIds(expectedText, model, encoding);
  const answers = { ...completion, ...scope, edits, prompts, parameters: asked };
  const lengths = { ...answers, room: roomOf(model), promptTokens: prompts.map(({ ids }) => ids.length) };
  const reserved = await reserveTokens(scope, tokensOf(prompts), demandOf(lengths));
  const { cappedTokens, ...granted } = grantAnswers(lengths, scope.permit, reserved);
  if (cappedTokens !== undefined) reply.header(CAPPED_HEADER, String(cappedTokens));
  const seen = await Promise.all(prompts.map((prompt) => withImages(prompt, signal)));
  const basis = basisOf(completion, model, seen, completion.choices);
  checkBasis(completion.resumption, basis);
  await run({ ...answers, ...granted, prompts: seen, plans, expected, basis });
}

/** A template that shows the date shows a resumed request the one of the first time. */
function arrivalOf({ request, resumption }: CompletionRequest): Date {
  return new Date(resumption?.kept.arrivedMs ?? Date.now() - (performance.now() - request.arrivedMs));
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
  const { caller, body, prompts, choices, parameters, basis } = job;
  const record = new RequestRecord({
    ...job,
    answerId: job.background?.answerId,
    ...recordedPrompts(prompts),
    kind: 'completion',
    tier: job.forceLow ? 'low' : caller.tier,
    stream: body.stream === true,
  });
  const echoes = await echoesOf(job);
  const generation = generationOf(job, record, echoes);
  const start = { ...basis, seed: (parameters[0] as SamplingParameters).seed };
  const archived = archiveRequest(job, record, start);
  let isSent = false;
  // A client that resumes the request later is charged only for the rest.
  const archiveUsage = async () => {
    // What is kept is the affair of the connection that has it now.
    if (!(await archived) || record.isSuperseded) return;
    // The next process finds it as if this one had been killed, and goes on with it however late it comes.
    if (job.background !== undefined && record.isPaused) return;
    // Nothing that is not in the books is told to be over: what a process leaves in mid-answer is charged later.
    await record.charged();
    const isWhole = isSent || job.background !== undefined;
    await archiveRequest(job, record, start, { usage: generation.usage, isWhole });
  };
  const answer = async () => {
    const reasons = await respond(job, generation, record, echoes, archived);
    record.answered(reasons);
    const isWhole = reasons.length === prompts.length * choices;
    isSent = isWhole && !job.signal.aborted;
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
      known: knownTokens(job.resumption, parameters[0] as SamplingParameters),
      expected,
      scoring: job.scoring?.alternatives,
      scoredEchoes: showsScores(job) ? prompts.map((_, at) => echoes[at * choices] as string) : undefined,
      stops: stopsOf(body),
      special: body.skip_special_tokens === false,
      priority: forceLow ? 2 : priorityOf(caller),
      salt: saltOf(job),
      order: body.priority,
      slot: job.slot,
      showsStop: body.include_stop_str_in_output,
      maxAnswerMs:
        body.t_max_predict_ms !== undefined && body.t_max_predict_ms > 0 ? body.t_max_predict_ms : undefined,
      account: caller.keyId,
      kvShare: kvShareOf(caller, context.settings),
      enqueuedMs: record.enqueuedMs,
      takeover: job.resumption?.takeover ?? (job.resumable && context.archive !== undefined ? 0 : undefined),
      budget: job.budget,
      trace: record.engineTrace,
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

function respond(
  job: CompletionJob,
  generation: Generation,
  record: RequestRecord,
  echoes: readonly string[],
  archived: Promise<boolean>,
): Promise<FinishReason[]> {
  const { model } = job;
  const shape = job.shape({
    ...shapeBasis(job, record, generation),
    base: answerBase(job, record, model.name, job.basis.fingerprint),
    model,
    logprobs: job.parameters[0]?.logprobs !== undefined,
    prompts: job.prompts,
    parameters: job.parameters,
    promptTokens: tokensOf(job.prompts),
    edits: job.edits,
    promptText: (prompt) => promptText(job, prompt),
  });
  const shown = showsScores(job) ? echoes.map(() => '') : echoes;
  const follow = job.resumable ? job.context.archive?.follow?.(record.id) : undefined;
  return sendAnswer(job, { source: generation, shape, record, echoes: shown, archived, follow });
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
