// Sends one streamed request and notes when its output comes. Never throws: whatever goes wrong is part of the answer.

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { StringDecoder } from 'node:string_decoder';
import type { Outcome, StreamedAnswer, Usage } from './request-record.ts';
import { headersOf, messageIn, pathOf, type Target } from './target.ts';

interface StreamCall {
  readonly body: object;
  readonly secret: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  /** Told of every chunk with output. */
  readonly onChunk?: () => void;
}

type Failure = Extract<Outcome, { kind: 'failed' }>;

const KEPT_ERROR_CHARACTERS = 4096;

export function streamRequest(target: Target, call: StreamCall): Promise<StreamedAnswer> {
  const { nowMs, signal, timeoutMs } = call;
  const body = JSON.stringify(call.body);
  const reader = new AnswerReader();
  const sentMs = nowMs();
  return new Promise((resolve) => {
    let request: ClientRequest | undefined;
    let isSettled = false;
    const settle = (outcome: Outcome) => {
      if (isSettled) return;
      isSettled = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      const { chunkMs, usage, finishReason, doneMs } = reader;
      resolve({ sentMs, endMs: doneMs ?? nowMs(), chunkMs, usage, finishReason, outcome });
    };
    const leave = (outcome: Outcome) => {
      settle(outcome);
      request?.destroy();
    };
    const onAbort = () => leave({ kind: 'cut-off' });
    const timer = setTimeout(() => leave(failed('timeout', `no end within ${timeoutMs} ms`)), timeoutMs);
    signal.addEventListener('abort', onAbort, { once: true });
    const open = (isFirst: boolean) => {
      const opened = openRequest(target, body, call.secret);
      let isAnswered = false;
      opened.once('response', (response) => {
        isAnswered = true;
        readResponse(response, reader, call, settle);
      });
      opened.on('error', (error: NodeJS.ErrnoException) => {
        // The server may close an idle connection just as it is used again; that says nothing about the request.
        const isStale = opened.reusedSocket && error.code === 'ECONNRESET' && !isAnswered;
        if (isFirst && isStale && !isSettled) open(false);
        else settle(failed('connection', error.code ?? error.message));
      });
      opened.end(body);
      request = opened;
    };
    if (signal.aborted) onAbort();
    else open(true);
  });
}

function openRequest(target: Target, body: string, secret: string | undefined): ClientRequest {
  const url = new URL(target.baseUrl + pathOf(target.endpoint));
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const headers = {
    ...headersOf(secret),
    accept: 'text/event-stream',
    'content-length': Buffer.byteLength(body),
  };
  return send(url, { method: 'POST', agent: target.agent, headers });
}

function readResponse(
  response: IncomingMessage,
  reader: AnswerReader,
  call: StreamCall,
  settle: (outcome: Outcome) => void,
): void {
  response.once('error', (error: NodeJS.ErrnoException) => {
    settle(failed('connection', `broken off: ${error.code ?? error.message}`, response.statusCode));
  });
  if (response.statusCode === 200) readStream(response, reader, call, settle);
  else readRefusal(response, settle);
}

/** Over with the end of the response, not with its closing mark: only then can its connection be used again. */
function readStream(
  response: IncomingMessage,
  reader: AnswerReader,
  { nowMs, onChunk }: StreamCall,
  settle: (outcome: Outcome) => void,
): void {
  const events = new EventReader();
  const take = (data: readonly string[], timeMs: number) => {
    const before = reader.chunkMs.length;
    for (const one of data) reader.take(one, timeMs);
    for (let n = before; n < reader.chunkMs.length; n++) onChunk?.();
  };
  response.on('data', (bytes: Buffer) => {
    const timeMs = nowMs();
    take(events.push(bytes), timeMs);
  });
  response.once('end', () => {
    take(events.end(), nowMs());
    settle(streamOutcome(reader));
  });
}

function streamOutcome(reader: AnswerReader): Outcome {
  if (reader.isComplete) return { kind: 'complete' };
  return failed('stream', reader.error ?? 'the stream ended before the answer did', 200);
}

function readRefusal(response: IncomingMessage, settle: (outcome: Outcome) => void): void {
  const { statusCode: status = 0 } = response;
  let text = '';
  response.setEncoding('utf8').on('data', (piece: string) => {
    if (text.length < KEPT_ERROR_CHARACTERS) text += piece;
  });
  response.once('end', () => {
    const retryAfterSeconds = retryAfter(response.headers['retry-after'], Date.now());
    const failure = status === 429 ? 'rate-limited' : 'http';
    settle({ ...failed(failure, messageIn(text), status), retryAfterSeconds });
  });
}

function failed(failure: Failure['failure'], message: string, status?: number): Failure {
  return { kind: 'failed', failure, status, message, retryAfterSeconds: undefined };
}

/** Seconds, or a date. */
export function retryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(header.trim())) return Number(header);
  const dateMs = Date.parse(header);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, (dateMs - nowMs) / 1000);
}

interface Chunk {
  readonly choices?: readonly {
    readonly text?: string;
    readonly delta?: Readonly<Record<string, unknown>>;
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: unknown;
}

/** Where a delta may hold output; a role alone is none. */
const outputFields = ['content', 'reasoning_content', 'reasoning', 'tool_calls', 'refusal'] as const;

class AnswerReader {
  readonly chunkMs: number[] = [];
  usage: Usage | undefined;
  finishReason: string | undefined;
  /** When the closing mark came. */
  doneMs: number | undefined;
  /** What the server said in the midst of its answer. */
  error: string | undefined;

  /** Ended as an answer should. */
  get isComplete(): boolean {
    return this.error === undefined && (this.doneMs !== undefined || this.finishReason !== undefined);
  }

  take(data: string, nowMs: number): void {
    if (data === '[DONE]') {
      this.doneMs ??= nowMs;
      return;
    }
    let chunk: Chunk;
    try {
      chunk = JSON.parse(data) as Chunk;
    } catch {
      this.error ??= `an event that is not JSON: ${data.slice(0, 100)}`;
      return;
    }
    if (chunk.error !== undefined && chunk.error !== null) this.error ??= messageIn(data);
    if (chunk.usage) this.usage = usageOf(chunk.usage) ?? this.usage;
    const [choice] = chunk.choices ?? [];
    if (choice === undefined) return;
    if (choice.text || outputFields.some((field) => hasOutput(choice.delta?.[field])))
      this.chunkMs.push(nowMs);
    this.finishReason = choice.finish_reason ?? this.finishReason;
  }
}

function hasOutput(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : typeof value === 'string' && value !== '';
}

function usageOf(usage: NonNullable<Chunk['usage']>): Usage | undefined {
  const { prompt_tokens: promptTokens, completion_tokens: outputTokens } = usage;
  if (promptTokens === undefined || outputTokens === undefined) return undefined;
  return { promptTokens, outputTokens, cachedTokens: usage.prompt_tokens_details?.cached_tokens };
}

export class EventReader {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #data: string[] = [];

  /** However the bytes are cut, also within a character or a line's end. */
  push(bytes: Buffer): string[] {
    return this.#take(this.#decoder.write(bytes));
  }

  /** What was left without its closing empty line. */
  end(): string[] {
    return this.#take(`${this.#decoder.end()}\n\n`);
  }

  #take(text: string): string[] {
    // A carriage return at the end may be half of a line's end.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    const events: string[] = [];
    for (const line of lines) {
      if (line.startsWith('data:')) this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      else if (line === '' && this.#data.length > 0) {
        events.push(this.#data.join('\n'));
        this.#data = [];
      }
    }
    return events;
  }
}
