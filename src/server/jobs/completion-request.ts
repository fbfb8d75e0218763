// A completion request of any protocol, read: what it asks for, and how its answer is written.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { AnswerRequirements } from '../../generation/answer-plan.ts';
import type { ParameterNames } from '../../generation/generation-error.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { UpstreamRequest } from '../../upstream/upstream-request.ts';
import type { ServerContext } from '../context.ts';
import { badRequest, warnOfUnknown } from '../http/errors.ts';
import { parseBody } from '../http/parse-body.ts';
import type { Framing } from '../http/sse.ts';
import {
  choicesOf,
  type SamplingBody,
  samplingDefaults,
  streamsUsage,
  withDefaults,
} from '../openai/schemas/sampling.ts';
import { findEntry } from '../request/find-model.ts';
import { type RequestContext, type RequestScope, requestContext } from '../request/request-scope.ts';
import { askedSlot } from '../request/slot-number.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import type { BackgroundRequest } from './background-request.ts';
import { type EditedPrompts, editedPrompts } from './edited-prompts.ts';
import type { Protocol } from './protocol.ts';
import { type Resumption, resumedContext, resumptionOf } from './resumption.ts';
import type { Scoring } from './scored-prompts.ts';

export interface CompletionRequest extends RequestContext {
  readonly forceLow: boolean;
  readonly background: BackgroundRequest | undefined;
  /** The model it names. */
  readonly entry: ModelEntry;
  readonly body: SamplingBody;
  readonly inputs: readonly PromptInput[];
  readonly choices: number;
  readonly slot: number | undefined;
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
  /** Without a model where an upstream has it. */
  readonly check: (model: ServedModel | undefined) => readonly string[];
  /** What an upstream is asked for; throws where none can be. */
  readonly remote: () => UpstreamRequest;
  /** What the client calls a field of OpenAI's bodies. */
  readonly fieldName: (field: string) => string;
  /** How long the model stays loaded while it is unused; undefined leaves that as it is. */
  readonly idleMs: number | undefined;
  /** The prompts that are left of `inputs` once the conversation is shortened. */
  readonly edited: (scope: RequestScope) => Promise<EditedPrompts>;
  readonly shape: (options: ShapeOptions) => AnswerShape;
}

export async function readCompletion<Schema extends z.ZodObject, Body extends SamplingBody>(
  given: ServerContext,
  protocol: Protocol<Schema, Body>,
  request: FastifyRequest,
  reply: FastifyReply,
  {
    forceLow,
    background,
  }: Pick<CompletionRequest, 'forceLow'> & Partial<Pick<CompletionRequest, 'background'>>,
): Promise<CompletionRequest> {
  const resumption = protocol.resumable ? await resumptionOf(given, request) : undefined;
  const context = resumedContext(given, resumption);
  const sent = resumption === undefined ? request.body : (JSON.parse(resumption.kept.body) as unknown);
  const { body: parsed, unknown } = parseBody(protocol.rules, sent);
  warnOfUnknown(reply, unknown);
  const incoming = requestContext(context, request, reply);
  const body = await protocol.read(parsed, incoming);
  const entry = findEntry(context.pool, resumption?.kept.model ?? body.model);
  const { kind, idMark, framing, resumable } = protocol;
  const names = kind.names(body);
  return {
    ...incoming,
    forceLow,
    background,
    entry,
    body,
    inputs: kind.prompts(body, context.settings),
    choices: choicesOf(body, context.settings.maxChoices),
    slot: askedSlot(context, body),
    names,
    maxTokens: kind.maxTokens(body),
    sampling: (model) => kind.sampling(withDefaults(body, samplingDefaults(context.settings, model)), model),
    responseFormat: kind.responseFormat(body),
    echoes: kind.echoes(body),
    expectedText: kind.expected?.(body),
    scoring: kind.scoring?.(body),
    includeUsage: streamsUsage(body),
    idMark,
    framing,
    // The client of any other has nothing yet, and asks again.
    resumable: resumable && (body.stream === true || background !== undefined),
    resumption,
    edited: (scope) => editedPrompts(protocol, parsed, body, scope),
    check: (model) => protocol.check?.(parsed, model, incoming) ?? [],
    shape: (options) => protocol.shape(options, parsed, incoming),
    remote: () => remoteRequest(protocol, parsed, body, context),
    fieldName: (field) => protocol.fieldNames?.[field] ?? samplingName(field, names) ?? field,
    idleMs: protocol.idleMs?.(parsed, incoming),
  };
}

function remoteRequest<Schema extends z.ZodObject, Body extends SamplingBody>(
  { kind, needsLocal }: Protocol<Schema, Body>,
  given: z.infer<Schema>,
  body: Body,
  { settings }: ServerContext,
): UpstreamRequest {
  if (kind.remote === undefined) {
    throw badRequest('model', 'is served by an upstream, which this protocol cannot ask', 'model_elsewhere');
  }
  const local = needsLocal?.(given);
  if (local !== undefined) throw badRequest(local, 'needs a model that is here', 'unsupported_parameter');
  return kind.remote(body, settings);
}

/** Sampling parameters are called otherwise in some protocols. Log-probabilities are asked for by two fields of one name. */
function samplingName(field: string, names: ParameterNames): string | undefined {
  if (field === wireNames.logprobs) return undefined;
  const [parameter] = Object.entries(wireNames).find(([, name]) => name === field) ?? [];
  return parameter === undefined ? undefined : names[parameter as keyof ParameterNames];
}
