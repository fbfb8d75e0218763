// How each protocol writes an answer, whole or as a stream: from the bytes of a successful response to what they mean.

import { answerOf, type CompletionAnswer, type TokenUsage, type WireAnswer } from './answer.ts';
import type { Outcome } from './outcome.ts';

export type Reader = (text: string) => Outcome;

interface WireError {
  readonly message: string;
  readonly type: string;
  readonly code: string | null;
}

export const readers = {
  /** Anything in JSON. */
  json: (text) => {
    const body = parsed(text);
    return body === undefined ? nothing(`the body is no JSON: ${endOf(text)}`) : plainAnswer(body);
  },
  completion: (text) => whole(text, (body) => answerOf([body as WireAnswer])),
  stream: (text) => events(text, completionStream),
  responses: (text) => {
    const outcome = whole(text, (body) => responseAnswer(body as WireResponse));
    const { id, store } = parsed(text) as WireResponse;
    // Where the database is locked, an answer is given all the same, and says that it was not kept.
    return outcome.kind === 'answer' && store ? { ...outcome, id } : outcome;
  },
  'responses stream': (text) => events(text, responseStream),
  messages: (text) => whole(text, (body) => messageAnswer(body as WireMessage)),
  'messages stream': (text) => events(text, messageStream),
  ollama: (text) => whole(text, (body) => ollamaAnswer([body as WireOllama])),
  'ollama stream': ollamaStream,
} satisfies Record<string, Reader>;

export type Form = keyof typeof readers;

/** The error a body says, in the shape of any protocol. */
export function errorOf(body: unknown): WireError | undefined {
  const error = (body as { error?: Partial<WireError> | string } | undefined)?.error;
  if (typeof error === 'string') return { message: error, type: '', code: codeIn(error) };
  if (typeof error?.message !== 'string') return undefined;
  if (typeof error.type !== 'string' && typeof error.code !== 'string') return undefined;
  return { type: '', ...error, message: error.message, code: error.code ?? codeIn(error.message) };
}

/** Protocols without codes say it in words alone. */
function codeIn(message: string): string | null {
  if (message.includes('queue is full')) return 'queue_full';
  if (message.includes('shutting down')) return 'shutting_down';
  if (/memory|room/.test(message)) return 'model_does_not_fit';
  return null;
}

/** The status is gone by the time of a stream; the error's type says which it would have been. */
const statusOfType: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  timeout_error: 408,
  rate_limit_error: 429,
};

function streamError({ type, code, message }: WireError): Outcome {
  const serverStatus = code === 'shutting_down' || code === 'model_does_not_fit' ? 503 : 500;
  const status = statusOfType[type] ?? serverStatus;
  return { kind: 'error', status, code, message, retryAfter: undefined, inStream: true };
}

function plainAnswer(body: unknown): Outcome {
  const { usage } = body as { usage?: { prompt_tokens?: number; completion_tokens?: number } };
  if (usage?.prompt_tokens === undefined) return { kind: 'answer', answer: body };
  const used = { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens ?? 0 };
  return { kind: 'answer', answer: body, usage: used };
}

function whole(text: string, read: (body: unknown) => CompletionAnswer): Outcome {
  const body = parsed(text);
  if (body === undefined) return nothing(`the body is no JSON: ${endOf(text)}`);
  return completed(read(body), text);
}

function completed(answer: CompletionAnswer, text: string): Outcome {
  const problem = incomplete(answer);
  if (problem !== undefined) return nothing(`${problem}: ${endOf(text)}`);
  const { usage } = answer;
  return { kind: 'answer', answer, ...(usage === undefined ? {} : { usage }) };
}

/** A stream read to its end; undefined where it has none. */
type StreamReader = (parts: readonly unknown[], done: boolean) => CompletionAnswer | undefined;

function events(text: string, read: StreamReader): Outcome {
  const parts: unknown[] = [];
  let done = false;
  for (const event of text.split('\n\n')) {
    const data = event.split('\n').find((line) => line.startsWith('data: '));
    if (data === undefined) continue;
    if (done) return nothing(`something came after [DONE]: ${event.slice(0, 120)}`);
    if (data === 'data: [DONE]') {
      done = true;
      continue;
    }
    const part = parsed(data.slice('data: '.length));
    if (part === undefined) return nothing(`an event is no JSON: ${data.slice(0, 120)}`);
    const error = errorOf(part) ?? errorOf((part as { response?: unknown }).response);
    if (error !== undefined) return streamError(error);
    parts.push(part);
  }
  const answer = read(parts, done);
  return answer === undefined
    ? nothing(`the stream ended without its last event and without an error: ${endOf(text)}`)
    : completed(answer, text);
}

function completionStream(parts: readonly unknown[], done: boolean): CompletionAnswer | undefined {
  return done ? answerOf(parts as WireAnswer[]) : undefined;
}

interface WireResponse {
  readonly id: string;
  readonly store: boolean;
  readonly status: string;
  readonly output: readonly { readonly content?: readonly { readonly text?: string }[] }[];
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number } | null;
}

function responseAnswer({ status, output, usage }: WireResponse): CompletionAnswer {
  const text = output.flatMap(({ content = [] }) => content.map((part) => part.text ?? '')).join('');
  return one(text, status, usage && tokens(usage.input_tokens, usage.output_tokens));
}

/** The pieces must be what the last event has as a whole. */
function responseStream(parts: readonly unknown[]): CompletionAnswer | undefined {
  const wire = parts as readonly { type: string; delta?: string; response?: WireResponse }[];
  const last = wire.at(-1);
  const ended = last?.type === 'response.completed' || last?.type === 'response.incomplete';
  if (!ended || last.response === undefined) return undefined;
  const answer = responseAnswer(last.response);
  const text = wire.map(({ type, delta }) => (type === 'response.output_text.delta' ? delta : '')).join('');
  return { ...answer, choices: answer.choices.map((choice) => ({ ...choice, text })) };
}

interface MessageUsage {
  readonly input_tokens: number;
  readonly cache_creation_input_tokens?: number;
  readonly cache_read_input_tokens?: number;
  readonly output_tokens: number;
}

interface WireMessage {
  readonly content: readonly { readonly text?: string }[];
  readonly stop_reason: string | null;
  readonly usage: MessageUsage;
}

function messageAnswer({ content, stop_reason, usage }: WireMessage): CompletionAnswer {
  return one(content.map(({ text }) => text ?? '').join(''), stop_reason, messageTokens(usage));
}

/** Cached tokens are counted apart there. */
function messageTokens(usage: MessageUsage): TokenUsage {
  const { input_tokens, cache_creation_input_tokens = 0, cache_read_input_tokens = 0 } = usage;
  return tokens(input_tokens + cache_creation_input_tokens + cache_read_input_tokens, usage.output_tokens);
}

function messageStream(parts: readonly unknown[]): CompletionAnswer | undefined {
  const wire = parts as readonly {
    type: string;
    delta?: { text?: string; stop_reason?: string };
    usage?: MessageUsage;
  }[];
  if (wire.at(-1)?.type !== 'message_stop') return undefined;
  const end = wire.find(({ type }) => type === 'message_delta');
  const text = wire.map(({ delta }) => delta?.text ?? '').join('');
  return one(text, end?.delta?.stop_reason ?? null, end?.usage && messageTokens(end.usage));
}

interface WireOllama {
  readonly message?: { readonly content: string };
  readonly response?: string;
  readonly done: boolean;
  readonly done_reason?: string;
  readonly prompt_eval_count?: number;
  readonly eval_count?: number;
}

function ollamaAnswer(lines: readonly WireOllama[]): CompletionAnswer {
  const last = lines.at(-1);
  const text = lines.map(({ message, response }) => message?.content ?? response ?? '').join('');
  return one(text, last?.done_reason ?? null, tokens(last?.prompt_eval_count ?? 0, last?.eval_count ?? 0));
}

/** A JSON object a line. */
function ollamaStream(text: string): Outcome {
  const lines: WireOllama[] = [];
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const part = parsed(line);
    if (part === undefined) return nothing(`a line is no JSON: ${line.slice(0, 120)}`);
    const error = errorOf(part);
    if (error !== undefined) return streamError(error);
    lines.push(part as WireOllama);
  }
  if (lines.at(-1)?.done !== true) return nothing(`the stream ended without "done": ${endOf(text)}`);
  return completed(ollamaAnswer(lines), text);
}

function one(text: string, reason: string | null, usage: TokenUsage | null | undefined): CompletionAnswer {
  return { choices: [{ text, reason, logprobs: [] }], usage: usage ?? undefined };
}

function tokens(promptTokens: number, completionTokens: number): TokenUsage {
  return { promptTokens, completionTokens };
}

function incomplete({ choices }: CompletionAnswer): string | undefined {
  if (choices.length === 0) return 'an answer without choices';
  for (let index = 0; index < choices.length; index++) {
    if (choices[index] === undefined) return `choice ${index} is missing`;
    if (typeof choices[index]?.reason !== 'string') return `choice ${index} has no finish_reason`;
  }
  return undefined;
}

/** Tokens that were sent at least in a stream that was not read to its end: a piece of text has one or more. */
export function tokensSent(text: string, form: Form): number {
  if (form !== 'stream') return 0;
  return text.split('\n\n').filter((event) => /"(text|content)":"(?!")/.test(event)).length;
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function endOf(text: string): string {
  return JSON.stringify(text.slice(-200));
}

function nothing(why: string): Outcome {
  return { kind: 'nothing', why };
}
