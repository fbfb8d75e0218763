// Sends one request to an upstream and reads its answer. Every failure names the upstream, and none its key.

import type { IncomingMessage } from 'node:http';
import { bytesOf } from './connections.ts';
import { EventStream } from './event-stream.ts';
import { errorOf, type JsonObject, MOST_MESSAGE_CHARACTERS, parseObject } from './json.ts';
import type { Upstream, UpstreamModel } from './upstream.ts';
import { UpstreamError } from './upstream-error.ts';
import type { AnswerReader, UpstreamEvent, UpstreamRequest } from './upstream-request.ts';

const MOST_ANSWER_BYTES = 64 * 1024 * 1024;
const MOST_ERROR_BYTES = 64 * 1024;

/** Which servers a request has come through, so that two that are each other's upstream do not send it back and forth. */
export const VIA_HEADER = 'x-chairlift-via';

export interface AskOptions {
  readonly signal: AbortSignal;
  readonly via: string;
  /** W3C's headers, where traces are taken. */
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string | undefined } | undefined;
}

/** Ends with the event `end`. Leaving the loop early, or the signal, ends the request at the upstream. */
export async function* askUpstream(
  { upstream, remoteName }: UpstreamModel,
  request: UpstreamRequest,
  options: AskOptions,
): AsyncGenerator<UpstreamEvent, void, void> {
  const { protocol, timeoutMs, lengthField } = upstream.settings;
  const body = protocol.body(request, { model: remoteName, lengthField });
  yield* named(upstream, async function* (key) {
    const response = await post(upstream, key, protocol.path(request), body, options);
    yield { kind: 'accepted' };
    yield* eventsOf(response, protocol.reader(request), timeoutMs, options.signal);
  });
}

/** What `read` makes of an answer that comes whole. */
export async function askWhole<Value>(
  { upstream }: UpstreamModel,
  path: string,
  body: object,
  options: AskOptions,
  read: (answer: JsonObject) => Value,
): Promise<Value> {
  const { signal } = options;
  const { timeoutMs } = upstream.settings;
  const answers = named(upstream, async function* (key) {
    const response = await post(upstream, key, path, body, options);
    const bytes = bytesOf(response, { timeoutMs, mostBytes: MOST_ANSWER_BYTES, signal });
    yield read(parseObject(await textOf(bytes)));
  });
  for await (const answer of answers) return answer;
  throw new Error('there was neither an answer nor an error');
}

/** Failures name the upstream, and no key. */
async function* named<Value>(
  { settings, name }: Upstream,
  ask: (key: string | undefined) => AsyncGenerator<Value, void, void>,
): AsyncGenerator<Value, void, void> {
  let key: string | undefined;
  try {
    key = await settings.key();
    yield* ask(key);
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    const { failure, retryAfter, param, code } = error;
    const told = `the upstream '${name}' ${hidden(error.message, key)}`;
    throw new UpstreamError(failure, told, { retryAfter, param, code });
  }
}

async function post(
  { connections, settings: { protocol, timeoutMs } }: Upstream,
  key: string | undefined,
  path: string,
  body: object,
  { signal, via, trace }: AskOptions,
): Promise<IncomingMessage> {
  const headers = {
    ...protocol.headers(key),
    accept: 'text/event-stream, application/json',
    [VIA_HEADER]: via,
    ...traceHeaders(trace),
  };
  const response = await connections.post({ path, headers, body: JSON.stringify(body), signal, timeoutMs });
  if (response.statusCode !== 200) throw await refusalOf(response, timeoutMs, signal);
  const encoding = response.headers['content-encoding'] ?? 'identity';
  if (encoding === 'identity') return response;
  response.destroy();
  throw new UpstreamError('invalid', 'sent a compressed answer, which was not asked for');
}

function traceHeaders(trace: AskOptions['trace']): Record<string, string> {
  if (trace === undefined) return {};
  const { traceparent, tracestate } = trace;
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

/** Some servers quote the key that they refuse. */
function hidden(message: string, key: string | undefined): string {
  return key === undefined ? message : message.replaceAll(key, '(key)');
}

async function* eventsOf(
  response: IncomingMessage,
  reader: AnswerReader,
  timeoutMs: number,
  signal: AbortSignal,
): AsyncGenerator<UpstreamEvent, void, void> {
  let isComplete = false;
  const bytes = bytesOf(response, {
    timeoutMs,
    mostBytes: MOST_ANSWER_BYTES,
    signal,
    isComplete: () => isComplete,
  });
  if (!/^text\/event-stream\b/i.test(response.headers['content-type'] ?? '')) {
    yield* reader.whole(await textOf(bytes));
    return;
  }
  const stream = new EventStream();
  for await (const chunk of bytes) {
    for (const data of stream.push(chunk)) {
      for (const event of reader.event(data)) {
        isComplete = event.kind === 'end';
        yield event;
        if (isComplete) return;
      }
    }
  }
  // Some servers end their streams without a closing event.
  yield { kind: 'end' };
}

async function textOf(bytes: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

async function refusalOf(
  response: IncomingMessage,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<UpstreamError> {
  const { statusCode: status = 0, headers } = response;
  if (status >= 300 && status < 400) {
    response.destroy();
    return new UpstreamError('failed', 'redirects elsewhere, which is not followed');
  }
  const said = await errorBodyOf(response, timeoutMs, signal);
  const message = (said.message ?? '').slice(0, MOST_MESSAGE_CHARACTERS);
  const because = message === '' ? '' : `: ${message}`;
  // What it says of a key may quote a part of it.
  if (status === 401 || status === 403)
    return new UpstreamError('unauthorized', `does not accept this server’s key`);
  const retryAfter = secondsOf(headers['retry-after']);
  if (status === 429)
    return new UpstreamError('rate-limited', `takes no more requests now${because}`, { retryAfter });
  if (status === 400 || status === 413 || status === 422) {
    return new UpstreamError('refused', `refuses the request${because}`, {
      param: said.param,
      code: said.code,
    });
  }
  return new UpstreamError('failed', `answered ${status}${because}`, { retryAfter });
}

async function errorBodyOf(
  response: IncomingMessage,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ReturnType<typeof errorOf>> {
  try {
    const bytes = bytesOf(response, { timeoutMs, mostBytes: MOST_ERROR_BYTES, signal });
    return errorOf(JSON.parse(await textOf(bytes)));
  } catch (error) {
    if (signal.aborted) throw error;
    return {};
  }
}

/** Seconds, or a date; passed on as seconds. */
function secondsOf(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const seconds = /^\d{1,9}$/.test(header.trim()) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : String(Math.max(1, Math.ceil(seconds)));
}
