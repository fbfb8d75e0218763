// Answers a completion with a model of an upstream. Limits, queue and record are those of any request; tokens of the prompt are
// estimated until the upstream has counted them.

import { createHash } from 'node:crypto';
import { VIA_HEADER } from '../../upstream/ask.ts';
import { RemoteGeneration } from '../../upstream/remote-generation.ts';
import type { UpstreamModel } from '../../upstream/upstream.ts';
import { UpstreamError } from '../../upstream/upstream-error.ts';
import type { UpstreamRequest } from '../../upstream/upstream-request.ts';
import { ApiError, badRequest, unsupported, warn } from '../http/errors.ts';
import type { UpstreamUse } from '../live/live-event.ts';
import { priorityOf } from '../request/auth.ts';
import { isDefault } from '../request/find-model.ts';
import { RequestRecord, recorded } from '../request/request-record.ts';
import { type QueuedScope, type RequestContext, reserveTokens } from '../request/request-scope.ts';
import { CAPPED_HEADER, demandOf, grantAnswers } from './answer-terms.ts';
import type { CompletionRequest } from './completion-request.ts';
import { answerBase, sendAnswer, shapeBasis } from './send-answer.ts';

export const UPSTREAM_HEADER = 'x-chairlift-upstream';
const FALLBACK_HEADER = 'x-chairlift-fallback';

export interface RemoteTarget {
  readonly model: UpstreamModel;
  readonly request: UpstreamRequest;
  readonly via: string;
  readonly fallback?: UpstreamUse['fallback'];
}

export interface FallbackTarget {
  readonly target: RemoteTarget;
  readonly waitMs: number | undefined;
}

/** Undefined where the model is here. Throws where its upstream cannot be asked this. */
export function targetOf(completion: CompletionRequest): RemoteTarget | undefined {
  const { context, entry } = completion;
  const model = entry.upstream === undefined ? undefined : context.upstreams?.find(entry.name);
  return model && remoteTarget(completion, model);
}

/** The upstream that would stand in; undefined where there is none that could be asked just this. */
export function fallbackOf(completion: CompletionRequest): FallbackTarget | undefined {
  const { context, entry, resumption } = completion;
  const fallback = context.upstreams?.fallbackFor(entry, isDefault(context.pool, entry));
  if (fallback === undefined || resumption !== undefined || namesTokens(completion)) return undefined;
  try {
    return { target: remoteTarget(completion, fallback.model), waitMs: fallback.waitMs };
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** Token ids mean the local model's vocabulary. */
function namesTokens({ body, inputs }: CompletionRequest): boolean {
  return body.logit_bias !== undefined || inputs.some(({ kind }) => kind === 'ids' || kind === 'pieces');
}

/** The servers that the request has come through, for the next one. Throws where it has been here before. */
export function viaOf({ context, request }: RequestContext, { name, upstream }: UpstreamModel): string {
  const came = request.headers[VIA_HEADER];
  const via = context.upstreams?.via(Array.isArray(came) ? came.join(',') : came);
  if (via !== undefined) return via;
  const message = `the request has come through too many servers, or through this one before: '${name}' is not asked of the upstream '${upstream.name}' again`;
  throw new ApiError(508, message, { code: 'upstream_loop' });
}

function remoteTarget(completion: CompletionRequest, model: UpstreamModel): RemoteTarget {
  const { fieldName } = completion;
  const via = viaOf(completion, model);
  const asked = completion.remote();
  const request = { ...asked, maxTokens: asked.maxTokens ?? model.maxTokens };
  const { protocol, parameters } = model.upstream.settings;
  const refused = protocol.refusal(request, parameters);
  if (refused !== undefined) {
    const problem = `${refused.problem}, which the upstream '${model.upstream.name}' of '${model.name}' speaks`;
    throw unsupported(fieldName(refused.field), problem);
  }
  if (request.kind === 'text' && request.maxTokens === undefined) {
    const problem = 'is needed: without it an upstream ends an answer after a few words';
    throw badRequest(fieldName('max_tokens'), problem, 'missing_required_parameter');
  }
  return { model, request, via };
}

export async function serveRemote(
  completion: CompletionRequest,
  scope: QueuedScope,
  target: RemoteTarget,
): Promise<void> {
  const { reply, inputs, choices } = completion;
  const { model, fallback } = target;
  reply.header(UPSTREAM_HEADER, model.upstream.name);
  if (fallback !== undefined) reply.header(FALLBACK_HEADER, fallback.reason);
  warn(reply, [...completion.check(undefined), ...target.request.leftOut]);
  const { promptTokens, maxTokens } = target.request;
  const asked = {
    ...completion,
    room: Number.POSITIVE_INFINITY,
    promptTokens: inputs.map((_, at) => shareOf(promptTokens, inputs.length, at)),
    parameters: inputs.map(() => ({ minTokens: 0, maxTokens })),
  };
  const reserved = await reserveTokens(scope, promptTokens, demandOf(asked));
  const { cappedTokens, parameters, budget } = grantAnswers(asked, scope.permit, reserved);
  if (cappedTokens !== undefined) reply.header(CAPPED_HEADER, String(cappedTokens));
  const request = { ...target.request, maxTokens: parameters[0]?.maxTokens };
  await run({ ...completion, ...scope, choices, budget }, { ...target, request });
}

type RemoteJob = CompletionRequest & QueuedScope & Pick<ReturnType<typeof grantAnswers>, 'budget'>;

async function run(job: RemoteJob, { model, request, via, fallback }: RemoteTarget): Promise<void> {
  const { caller, body, forceLow, signal } = job;
  const upstream = { name: model.upstream.name, model: model.remoteName, ...(fallback ? { fallback } : {}) };
  const record = new RequestRecord({
    ...job,
    answerId: job.background?.answerId,
    kind: 'completion',
    model,
    upstream,
    promptTokens: request.promptTokens,
    promptText: () => JSON.stringify(request.fields.messages ?? request.fields.prompt),
    loadMs: 0,
    tier: forceLow ? 'low' : caller.tier,
    stream: body.stream === true,
  });
  if (job.context.settings.logPrompts) {
    job.request.log.info({ prompts: request.fields.messages ?? request.fields.prompt }, 'prompts');
  }
  const priority = forceLow ? 2 : priorityOf(caller);
  const { upstreamTrace: trace } = record;
  const asked = { id: record.id, model, request, via, priority, trace, budget: job.budget };
  const source = new RemoteGeneration(asked, signal, record);
  const shape = job.shape({
    ...shapeBasis(job, record, source),
    base: answerBase(job, record, model.name, fingerprint(job, model)),
    model: undefined,
    logprobs: false,
    prompts: [],
    parameters: [],
    promptTokens: request.promptTokens,
    promptText: () => Promise.reject(new Error('only the upstream knows how it reads the prompt')),
  });
  if (fallback !== undefined) await openFallback(source, job);
  const echoes = Array.from({ length: request.answers }, () => '');
  const answer = async () => {
    const archived = Promise.resolve(false);
    record.answered(await sendAnswer(job, { source, shape, record, echoes, archived }));
    if (request.maxTokens === undefined && !job.budget?.isSpent) {
      job.context.typicalAnswer.record(caller.keyId, source.usage.completionTokens / request.answers);
    }
  };
  await recorded(record, source, job, answer);
}

/** Whole tokens: limits are counted in them. */
function shareOf(tokens: number, parts: number, at: number): number {
  return Math.floor(tokens / parts) + (at < tokens % parts ? 1 : 0);
}

/** The upstream that would have stood in does not take the request: the local model answers after all. */
export class FallbackFailed extends Error {
  override readonly name = 'FallbackFailed';
}

/** Before anything is recorded or sent. Throws FallbackFailed. */
async function openFallback(source: RemoteGeneration, { reply }: RemoteJob): Promise<void> {
  try {
    await source.open();
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    for (const header of [UPSTREAM_HEADER, FALLBACK_HEADER, CAPPED_HEADER]) reply.removeHeader(header);
    throw new FallbackFailed(error.message);
  }
}

/** Changes with what is known here to change an answer. */
function fingerprint({ context }: CompletionRequest, { name, remoteName, upstream }: UpstreamModel): string {
  const text = JSON.stringify([context.version, name, remoteName, upstream.name]);
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
}
