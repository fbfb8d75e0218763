// Takes texts through the house on their way to vectors, by the same doors as completions: limits, queue, model, encoding,
// the engine, and the record of it all.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkFits, roomOf } from '../../generation/context-room.ts';
import { cutPrompt, cutText } from '../../generation/cut-text.ts';
import { Embedding, poolingOf } from '../../generation/embedding.ts';
import type { Prompt, PromptInput } from '../../generation/prompt.ts';
import type { TokenUsage } from '../../generation/token-usage.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { warn } from '../http/warn.ts';
import { type Caller, kvShareOf, priorityOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { RequestRecord, type RequestTimes, recorded } from '../request/request-record.ts';
import { type Visit, visit, weigh } from '../request/request-scope.ts';
import { encodePrompts, tokensOf } from './encode-prompts.ts';

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
  /** What is too long loses its end. Default false: it is refused. */
  readonly cuts?: boolean;
  /** How long the model stays afterwards when nobody uses it, where the request decides that. */
  readonly idleMs?: number | undefined;
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
  readonly times: RequestTimes;
}

export function embedPrompts(
  several: readonly (string | readonly number[])[],
  nameOf: EmbedOrder['nameOf'],
  most: number,
): readonly PromptInput[] {
  if (several.length > most) {
    throw badRequest('input', `${several.length} texts are too many; ${most} are possible`);
  }
  const empty = several.findIndex(({ length }) => length === 0);
  if (empty >= 0) throw badRequest(nameOf(empty), 'is empty, and there is nothing to embed');
  return several.map((one) =>
    typeof one === 'string' ? { kind: 'text', text: one, eos: true } : { kind: 'ids', ids: one },
  );
}

/** `answer` sends the vectors, while the request still counts as one that runs. */
export async function embedInputs(
  order: EmbedOrder,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const { context, request, reply, inputs, idleMs } = order;
  const modelName = findEntry(context.pool, order.modelName).name;
  const sequences = inputs.length;
  const demand = { least: sequences, expected: sequences };
  const terms = { modelName, demand, sequences, idleMs };
  await visit(context, request, reply, terms, (place) => embed(order, place, answer));
}

async function embed(
  order: EmbedOrder,
  place: Visit,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const { context, request, reply, dimensions, forceLow, nameOf } = order;
  const { model, signal } = place;
  const caller = request.caller as Caller;
  poolingOf(model);
  order.check?.(model);
  const prompts = order.cuts
    ? await cutPrompts({ ...order, caller }, place)
    : await encodePrompts({ ...order, caller }, place);
  for (const [at, { ids }] of prompts.entries()) checkFits(ids.length, roomOf(model), nameOf(at));
  const tokens = tokensOf(prompts);
  await weigh({ ...place, reply }, tokens, { least: tokens, expected: tokens });
  const record = new RequestRecord({
    ...order,
    ...place,
    caller,
    prompts,
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
      kvShare: kvShareOf(caller, context.settings),
      enqueuedMs: record.arrivedMs,
    },
    signal,
    record,
  );
  await recorded(record, embedding, place, async () => {
    const vectors = await embedding.vectors();
    record.prompted();
    await answer({ model, vectors, usage: embedding.usage, times: record.times });
  });
}

/** Whose texts were cut is told. */
async function cutPrompts(order: EmbedOrder & { readonly caller: Caller }, place: Visit): Promise<Prompt[]> {
  const { model } = place;
  const inputs = order.inputs.map((input) =>
    input.kind === 'text' ? { ...input, text: cutText(input.text, model) } : input,
  );
  const prompts = await encodePrompts({ ...order, inputs }, place);
  return prompts.map((prompt, at) => {
    const cut = cutPrompt(prompt, model);
    if (cut === undefined) return prompt;
    warn(order.reply, [`${order.nameOf(at)}: cut to ${cut.ids.length} tokens`]);
    return cut;
  });
}

/** Nothing is generated. */
export function promptUsage({ promptTokens }: TokenUsage): object {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens };
}
