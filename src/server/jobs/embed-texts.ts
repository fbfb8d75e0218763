// Texts that become vectors, by a model that is here or by one of an upstream.

import type { PromptInput } from '../../generation/prompt.ts';
import { RemoteEmbedding } from '../../upstream/remote-embedding.ts';
import type { UpstreamModel } from '../../upstream/upstream.ts';
import { estimateTokens } from '../../upstream/upstream-request.ts';
import { badRequest, unsupported } from '../http/errors.ts';
import { priorityOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { RequestRecord, recorded } from '../request/request-record.ts';
import { type QueuedScope, reserveTokens, withAdmission, withQueueEntry } from '../request/request-scope.ts';
import { type EmbeddedInputs, type EmbeddingRequest, embedInputs, type TextPlan } from './embed-inputs.ts';
import { UPSTREAM_HEADER, viaOf } from './remote-completion.ts';

export type EmbeddedTexts = Omit<EmbeddedInputs, 'model'> & { readonly model: { readonly name: string } };

interface TextsRequest extends EmbeddingRequest {
  readonly plan: TextPlan;
  /** The parameter by which the client wants long texts cut, which no upstream does; undefined where it does not say so. */
  readonly cutsBy?: string | undefined;
}

/** `answer` sends the vectors, while the request still counts as running. */
export async function embedTexts(
  given: TextsRequest,
  answer: (embedded: EmbeddedTexts) => Promise<void>,
): Promise<void> {
  const { context, modelName, plan, sequences, cutsBy } = given;
  const entry = findEntry(context.pool, modelName);
  const model = entry.upstream === undefined ? undefined : context.upstreams?.find(entry.name);
  const path = model?.upstream.settings.protocol.embeddingsPath;
  // Without such a route the model is refused as any that is elsewhere.
  if (model === undefined || path === undefined) return embedInputs(given, answer);
  const via = viaOf(given, model);
  if (cutsBy !== undefined)
    throw unsupported(cutsBy, `cannot be carried to the upstream '${entry.upstream}'`);
  const inputs = plan.inputs.map((input, at) => wireInput(input, plan.nameOf(at)));
  const demand = { least: sequences, expected: sequences };
  await withAdmission(given, demand, (admitted) =>
    withQueueEntry(admitted, { modelName: model.name, sequences }, (scope) =>
      embed({ given, scope, model, path, inputs, via }, answer),
    ),
  );
}

interface RemoteJob {
  readonly given: TextsRequest;
  readonly scope: QueuedScope;
  readonly model: UpstreamModel;
  readonly path: string;
  readonly inputs: readonly (string | readonly number[])[];
  readonly via: string;
}

async function embed(
  { given, scope, model, path, inputs, via }: RemoteJob,
  answer: (embedded: EmbeddedTexts) => Promise<void>,
): Promise<void> {
  const { forceLow, dimensions, reply } = given;
  const { caller, signal } = scope;
  reply.header(UPSTREAM_HEADER, model.upstream.name);
  const promptTokens = inputs.reduce(
    (sum, input) => sum + (typeof input === 'string' ? estimateTokens(input.length) : input.length),
    0,
  );
  await reserveTokens(scope, promptTokens, { least: promptTokens, expected: promptTokens });
  const record = new RequestRecord({
    ...scope,
    kind: 'embedding',
    model,
    upstream: { name: model.upstream.name, model: model.remoteName },
    promptTokens,
    promptText: () => inputs.join('\n'),
    loadMs: 0,
    tier: forceLow ? 'low' : caller.tier,
    idMark: 'embd-',
    stream: false,
  });
  const priority = forceLow ? 2 : priorityOf(caller);
  const asked = {
    id: record.id,
    model,
    path,
    inputs,
    dimensions,
    promptTokens,
    priority,
    via,
    trace: record.upstreamTrace,
  };
  const embedding = new RemoteEmbedding(asked, signal, record);
  await recorded(record, embedding, scope, async () => {
    const vectors = await embedding.vectors();
    record.prompted();
    await answer({ model, vectors, usage: embedding.usage, times: record.times });
  });
}

function wireInput(input: PromptInput, name: string): string | readonly number[] {
  if (input.kind === 'text') return input.text;
  if (input.kind === 'ids') return [...input.ids];
  throw badRequest(name, 'texts and token ids in one sequence are not possible with a model of an upstream');
}
