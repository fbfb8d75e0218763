// Answers of a chat: from a server, or from a model that is loaded into this process.

import { type BackendName, BLOCK_TOKENS } from '../compute/backend.ts';
import { AnswerGrammars } from '../generation/answer-grammars.ts';
import type { GenerationPart } from '../generation/answer-parts.ts';
import type { ContentPart } from '../generation/chat-prompt.ts';
import { GenerationError } from '../generation/generation-error.ts';
import { prepare } from '../generation/prepare.ts';
import { directEncoder } from '../generation/prompt-encoder.ts';
import { type ResponseFormat, requirementsFor } from '../generation/response-format.ts';
import { flagNames, samplingSettings } from '../generation/sampling-settings.ts';
import { openLocalModel } from '../pool/local-model.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { messageOf } from '../runtime/error-message.ts';
import { asUsageError } from './flags.ts';
import { loadHere } from './loaded-here.ts';
import { callServer, messageIn, readEvents, refusalOf, type ServerFlags } from './server-client.ts';
import { UsageError } from './usage-error.ts';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string | readonly ContentPart[];
}

export interface AnswerUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly answerTokens: number;
}

export type AnswerEvent =
  /** Shown before the answer. */
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly reason: string; readonly usage: AnswerUsage | undefined };

export interface ChatAnswers {
  readonly name: string;
  /** Ends early, without an `end`, when the signal is aborted. Throws UsageError for what the user can fix. */
  answer(messages: readonly ChatMessage[], signal: AbortSignal): AsyncGenerator<AnswerEvent, void, void>;
  close(): Promise<void>;
}

export interface ChatSampling {
  readonly temperature?: number;
  readonly maxTokens?: number;
  readonly seed?: number;
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  } | null;
  readonly error?: unknown;
}

/** Without a name, the server's default model answers. */
export function serverAnswers(
  server: ServerFlags,
  model: string | undefined,
  sampling: ChatSampling,
  structure?: ResponseFormat,
): ChatAnswers {
  return {
    name: `${model ?? 'the default model'} at ${server.url}`,
    async *answer(messages, signal) {
      const body = { ...requestOf(messages, model, sampling), ...structureField(structure) };
      try {
        const response = await callServer(server, '/v1/chat/completions', { body, signal });
        if (!response.ok) throw await refusalOf(response);
        if (response.body !== null) yield* answerIn(response.body);
      } catch (error) {
        if (!signal.aborted) throw lost(error);
      }
    },
    close: async () => {},
  };
}

function requestOf(
  messages: readonly ChatMessage[],
  model: string | undefined,
  { temperature, maxTokens, seed }: ChatSampling,
): object {
  return {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    temperature,
    max_tokens: maxTokens,
    seed,
  };
}

function structureField(structure: ResponseFormat | undefined): object {
  const { expression } = structure ?? {};
  switch (expression?.kind) {
    case 'schema':
      return { structured_outputs: { json: expression.schema } };
    case 'regex':
      return { structured_outputs: { regex: expression.pattern } };
    case 'grammar':
      return { structured_outputs: { grammar: expression.text } };
    default:
      return {};
  }
}

async function* answerIn(body: ReadableStream<Uint8Array>): AsyncGenerator<AnswerEvent, void, void> {
  let reason = 'stop';
  let usage: AnswerUsage | undefined;
  for await (const data of readEvents(body)) {
    if (data === '[DONE]') {
      yield { kind: 'end', reason, usage };
      return;
    }
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error !== undefined) throw new UsageError(`the server gave up: ${messageIn(data)}`);
    if (chunk.usage) usage = usageOf(chunk.usage);
    const [choice] = chunk.choices ?? [];
    const { reasoning_content: reasoning } = choice?.delta ?? {};
    if (reasoning) yield { kind: 'reasoning', text: reasoning };
    if (choice?.delta?.content) yield { kind: 'text', text: choice.delta.content };
    reason = choice?.finish_reason ?? reason;
  }
  throw new UsageError('the connection ended before the answer did');
}

function usageOf(usage: NonNullable<Chunk['usage']>): AnswerUsage {
  return {
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    answerTokens: usage.completion_tokens,
  };
}

function lost(error: unknown): UsageError {
  if (error instanceof UsageError) return error;
  if (error instanceof SyntaxError)
    return new UsageError('the server sent what is no chat completion; check --url');
  return new UsageError(`the connection to the server was lost: ${messageOf(error)}`);
}

interface LocalAnswersOptions {
  readonly sampling: ChatSampling;
  /** Of the whole conversation; never above the model's own limit. */
  readonly contextTokens: number;
  readonly backend: BackendName | undefined;
  readonly structure?: ResponseFormat | undefined;
}

interface Answering extends Pick<LocalAnswersOptions, 'sampling' | 'structure'> {
  readonly model: ServedModel;
  readonly grammars: AnswerGrammars;
}

const names = { ...flagNames, prompt: 'messages' };

export async function localAnswers(path: string, options: LocalAnswersOptions): Promise<ChatAnswers> {
  const local = openLocalModel(path, {
    contextLength: options.contextTokens,
    images: 'if-possible',
  });
  if (local.spec.headless === true) {
    local.close();
    throw new UsageError(`${path} embeds texts and cannot continue them`);
  }
  if (local.template === undefined) {
    local.close();
    throw new UsageError(`${path} has no chat template; 'chairlift generate' continues a plain text with it`);
  }
  const blockCount = Math.ceil(local.spec.contextLength / BLOCK_TOKENS);
  const model = await loadHere(path, local, { blockCount, backend: options.backend });
  const grammars = new AnswerGrammars();
  return {
    name: path,
    answer: (messages, signal) => answerOf({ model, grammars, ...options }, messages, signal),
    close: async () => void (await Promise.all([grammars.close(), model.engine.close()])),
  };
}

async function* answerOf(
  { model, grammars, sampling, structure }: Answering,
  messages: readonly ChatMessage[],
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent, void, void> {
  try {
    const generation = await prepare(
      {
        model,
        input: { kind: 'chat', messages },
        sampling: samplingSettings(sampling, model, names),
        names,
        encoder: directEncoder,
        asks: { requirements: requirementsFor(structure, true), grammars },
      },
      signal,
    );
    for await (const event of generation.events()) {
      if (event.kind === 'piece') {
        yield* event.parts.flatMap(wordsOf);
        continue;
      }
      if (event.kind === 'scores') continue;
      const { completionTokens: answerTokens, ...usage } = generation.usage;
      yield { kind: 'end', reason: event.reason, usage: { ...usage, answerTokens } };
    }
  } catch (error) {
    if (!signal.aborted) throw localError(error);
  }
}

/** No calls without tools. */
function wordsOf(part: GenerationPart): AnswerEvent[] {
  if (part.kind === 'content') return [{ kind: 'text', text: part.text }];
  return part.kind === 'reasoning' ? [{ kind: 'reasoning', text: part.text }] : [];
}

function localError(error: unknown): unknown {
  if (error instanceof GenerationError && error.code === 'context_length_exceeded') {
    return new UsageError(`${error.message}; /clear starts anew`);
  }
  return asUsageError(error);
}
