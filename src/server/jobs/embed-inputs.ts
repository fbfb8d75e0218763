// Serves texts that become vectors, or the outputs of a classifier's head, in the same steps as a completion: limits, queue, model, encoding, the engine, and the
// record of what was used.

import { setImmediate } from 'node:timers/promises';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { Prompt } from '../../generation/context-room.ts';
import { checkFits, cutPrompt, cutText, roomOf } from '../../generation/context-room.ts';
import { classifierOf, Embedding, poolingOf } from '../../generation/embedding.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { badRequest, warn } from '../http/errors.ts';
import { isEmptyPrompt, type OnePrompt, promptInput } from '../openai/schemas/prompts.ts';
import { kvShareOf, priorityOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { RequestRecord, type RequestTimes, recorded } from '../request/request-record.ts';
import {
  type RequestContext,
  type RequestScope,
  reserveTokens,
  withRequestScope,
} from '../request/request-scope.ts';
import { encodePrompts, recordedPrompts, tokensOf } from './encode-prompts.ts';

/** What is computed, and what the client calls each of it. */
export interface TextPlan {
  readonly inputs: readonly PromptInput[];
  readonly nameOf: (at: number) => string;
  /** Vectors are the outputs of the model's head. Default false. */
  readonly classifies?: boolean;
  /** Vectors are the states of all tokens, one after the other. Default false. */
  readonly eachToken?: boolean;
}

export interface EmbeddingRequest extends RequestContext {
  readonly modelName: string | undefined;
  /** Of a model: some are asked in another way. */
  readonly plan: TextPlan | ((model: ServedModel) => TextPlan);
  /** The most inputs there may be. */
  readonly sequences: number;
  readonly dimensions?: number | undefined;
  /** Which norm of each vector becomes 1. Default 2, its length. */
  readonly norm?: number | undefined;
  /** A text that is too long loses its end. Default false: it is refused. */
  readonly cuts?: boolean;
  /** How long the model stays loaded while it is unused; absent where the request does not say. */
  readonly idleMs?: number | undefined;
  readonly forceLow: boolean;
  readonly check?: (model: ServedModel) => void;
}

export interface EmbeddedInputs {
  readonly model: ServedModel;
  readonly vectors: readonly Float32Array[];
  readonly usage: TokenUsage;
  readonly times: RequestTimes;
}

export function embedPrompts(
  several: readonly OnePrompt[],
  nameOf: TextPlan['nameOf'],
  most: number,
): readonly PromptInput[] {
  if (several.length > most) {
    throw badRequest('input', `${several.length} texts are too many; ${most} are possible`);
  }
  const empty = several.findIndex(isEmptyPrompt);
  if (empty >= 0) throw badRequest(nameOf(empty), 'is empty, and there is nothing to embed');
  return several.map((one) => promptInput(one, { eos: true }));
}

/** `answer` sends the vectors, while the request still counts as running. */
export async function embedInputs(
  given: EmbeddingRequest,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const { context, sequences, idleMs } = given;
  const modelName = findEntry(context.pool, given.modelName).name;
  const demand = { least: sequences, expected: sequences };
  await withRequestScope(given, { modelName, demand, sequences, idleMs }, (scope) =>
    embed(given, scope, answer),
  );
}

async function embed(
  given: EmbeddingRequest,
  scope: RequestScope,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const { dimensions, norm, forceLow } = given;
  const { context, caller, model, signal } = scope;
  given.check?.(model);
  const plan = typeof given.plan === 'function' ? given.plan(model) : given.plan;
  const { inputs, nameOf, classifies = false, eachToken = false } = plan;
  if (classifies) classifierOf(model);
  else if (!eachToken) poolingOf(model);
  const prompts = given.cuts ? await cutPrompts(plan, scope) : await encodePrompts(scope, inputs, nameOf);
  for (const [at, { ids }] of prompts.entries()) checkFits(ids.length, roomOf(model), nameOf(at));
  const tokens = tokensOf(prompts);
  if (eachToken) checkStates(tokens, model);
  await reserveTokens(scope, tokens, { least: tokens, expected: tokens });
  const record = new RequestRecord({
    ...scope,
    ...recordedPrompts(prompts),
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
      norm,
      classifies,
      eachToken,
      priority: forceLow ? 2 : priorityOf(caller),
      salt: context.settings.shareCache ? '' : caller.keyId,
      account: caller.keyId,
      kvShare: kvShareOf(caller, context.settings),
      enqueuedMs: record.enqueuedMs,
      trace: record.engineTrace,
    },
    signal,
    record,
  );
  await recorded(record, embedding, scope, async () => {
    const vectors = await embedding.vectors();
    record.prompted();
    await answer({ model, vectors, usage: embedding.usage, times: record.times });
  });
}

/** They are sent from process to process and written as JSON in one piece. */
const MOST_NUMBERS = 2 ** 22;

function checkStates(tokens: number, { spec }: ServedModel): void {
  const numbers = tokens * spec.hiddenSize;
  if (numbers <= MOST_NUMBERS) return;
  const most = Math.floor(MOST_NUMBERS / spec.hiddenSize);
  throw badRequest('input', `has ${tokens} tokens; ${most} of this model can be returned at once`);
}

/** The states of each token. */
export function rowsOf(states: Float32Array, { spec }: ServedModel): number[][] {
  const { hiddenSize: size } = spec;
  const rows = states.length / size;
  return Array.from({ length: rows }, (_, row) => Array.from(states.subarray(row * size, (row + 1) * size)));
}

async function cutPrompts({ inputs: given, nameOf }: TextPlan, scope: RequestScope): Promise<Prompt[]> {
  const { model, reply } = scope;
  const inputs = given.map((input) =>
    input.kind === 'text' ? { ...input, text: cutText(input.text, model) } : input,
  );
  const prompts = await encodePrompts(scope, inputs, nameOf);
  return prompts.map((prompt, at) => {
    const cut = cutPrompt(prompt, model);
    if (cut === undefined) return prompt;
    warn(reply, [`${nameOf(at)}: cut to ${cut.ids.length} tokens`]);
    return cut;
  });
}

export function promptUsage({ promptTokens }: TokenUsage): object {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens };
}

/** After this many numbers other requests get a turn: writing millions takes seconds. */
const NUMBERS_AT_ONCE = 65_536;

export async function vectorList(
  vectors: readonly Float32Array[],
  write: (vector: Float32Array, index: number) => string,
): Promise<string> {
  const entries: string[] = [];
  let numbers = 0;
  for (const [index, vector] of vectors.entries()) {
    entries.push(write(vector, index));
    numbers += vector.length;
    if (numbers < NUMBERS_AT_ONCE) continue;
    numbers = 0;
    await setImmediate();
  }
  return `[${entries.join(',')}]`;
}
