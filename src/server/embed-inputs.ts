// Takes texts through the house on their way to vectors, by the same doors as completions: limits, queue, model, encoding,
// the engine, and the record of it all.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkFits, roomOf } from '../generation/context-room.ts';
import { Embedding, poolingOf } from '../generation/embedding.ts';
import type { PromptInput } from '../generation/prompt.ts';
import type { TokenUsage } from '../generation/token-usage.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { type Caller, priorityOf } from './auth.ts';
import type { ServerContext } from './context.ts';
import { encodePrompts, tokensOf } from './encode-prompts.ts';
import { findEntry } from './models.ts';
import { RequestRecord, recorded } from './request-record.ts';
import { type Visit, visit, weigh } from './stay.ts';

export interface EmbedOrder {
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** The default model where absent. */
  readonly modelName: string | undefined;
  readonly inputs: readonly PromptInput[];
  /** What the client calls each of them. */
  readonly nameOf: (at: number) => string;
  readonly dimensions?: number | undefined;
  /** Whatever the key's tier. */
  readonly forceLow: boolean;
  /** Throws where the model cannot do what is asked of it. */
  readonly check?: (model: ServedModel) => void;
}

export interface EmbeddedInputs {
  readonly model: ServedModel;
  /** One for each input, of length 1. */
  readonly vectors: readonly Float32Array[];
  readonly usage: TokenUsage;
}

/** `answer` sends the vectors, while the request still counts as one that runs. */
export async function embedInputs(
  order: EmbedOrder,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const { context, request, reply, inputs } = order;
  const modelName = findEntry(context.pool, order.modelName).name;
  const least = { modelName, leastTokens: inputs.length };
  await visit(context, request, reply, least, (place) => embed(order, place, answer));
}

async function embed(
  order: EmbedOrder,
  place: Visit,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const { context, request, reply, dimensions, forceLow, nameOf } = order;
  const { model, signal, permit } = place;
  const caller = request.caller as Caller;
  poolingOf(model);
  order.check?.(model);
  const prompts = await encodePrompts({ ...order, caller }, place);
  for (const [at, { ids }] of prompts.entries()) checkFits(ids.length, roomOf(model), nameOf(at));
  const tokens = tokensOf(prompts);
  weigh(context, { ...place, caller, reply }, tokens, tokens);
  const record = new RequestRecord({
    ...order,
    ...place,
    caller,
    kind: 'embedding',
    tier: forceLow ? 'low' : caller.tier,
    idMark: 'embd-',
    stream: false,
  });
  const embedding = new Embedding(
    {
      id: record.id,
      model,
      prompts,
      dimensions,
      priority: forceLow ? 2 : priorityOf(caller),
      salt: context.settings.shareCache ? '' : caller.keyId,
      account: caller.keyId,
      enqueuedMs: record.arrivedMs,
    },
    signal,
    record,
  );
  await recorded(record, embedding, permit, async () => {
    const vectors = await embedding.vectors();
    record.prompted();
    await answer({ model, vectors, usage: embedding.usage });
  });
}

/** Nothing is generated. */
export function promptUsage({ promptTokens }: TokenUsage): object {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens };
}
