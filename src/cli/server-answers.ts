// Answers from a running server, streamed from its /v1/chat/completions.

import type { ResponseFormat } from '../generation/response-format.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { AnswerEvent, AnswerUsage, ChatAnswers, ChatMessage, ChatSampling } from './chat-answers.ts';
import { readEvents } from './event-stream.ts';
import { callServer, messageIn, refusalOf, type ServerFlags } from './server-client.ts';
import { UsageError } from './usage-error.ts';

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

/** Without a model's name the server's default model answers. */
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
