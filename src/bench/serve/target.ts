// The server under load: its address, its model, and plain requests to it beside the load.

import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';

export type Endpoint = 'chat' | 'completions';

export interface Target {
  /** Ends in its version: `http://127.0.0.1:8000/v1`. */
  readonly baseUrl: string;
  readonly model: string;
  readonly endpoint: Endpoint;
  /** Keeps connections; has as many as there are requests at once. */
  readonly agent: HttpAgent | HttpsAgent;
}

/** The server cannot be put under load as asked; the message says what to do. */
export class TargetError extends Error {
  override readonly name = 'TargetError';
}

/** `/v1` is added where the address has no version. Undefined where it is no address. */
export function baseUrlOf(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, origin, pathname } = new URL(text);
  if (protocol !== 'http:' && protocol !== 'https:') return undefined;
  const path = pathname.replace(/\/+$/, '');
  return /\/v\d+\w*$/.test(path) ? origin + path : `${origin + path}/v1`;
}

export function makeAgent(baseUrl: string): HttpAgent | HttpsAgent {
  const options = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 4096 };
  return baseUrl.startsWith('https:') ? new HttpsAgent(options) : new HttpAgent(options);
}

export function pathOf(endpoint: Endpoint): string {
  return endpoint === 'chat' ? '/chat/completions' : '/completions';
}

export function headersOf(secret: string | undefined): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
  };
}

interface PlainCall {
  readonly secret: string | undefined;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly body?: object;
}

/** One request outside the load; whatever goes wrong is a TargetError. */
export async function callPlain(baseUrl: string, path: string, call: PlainCall): Promise<unknown> {
  const { secret, signal, timeoutMs, body } = call;
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      headers: headersOf(secret),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    status = response.status;
    text = await response.text();
  } catch (error) {
    signal.throwIfAborted();
    throw new TargetError(`no answer from ${baseUrl}${path} (${reasonOf(error)}); check --url`);
  }
  if (status !== 200) {
    const advice = status === 401 || status === 403 ? '; give a key with --key' : '';
    throw new TargetError(`${path} was refused (${status}): ${messageIn(text)}${advice}`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new TargetError(`${baseUrl}${path} does not answer in JSON; check --url`);
  }
}

/** The server's own words, where it has some. */
export function messageIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === 'string') return error;
    const message = (error as { message?: unknown } | undefined)?.message;
    if (typeof message === 'string') return message;
  } catch {
    // Not JSON: the start of the text has to do.
  }
  return text.slice(0, 200).trim() || 'without a word';
}

function reasonOf(error: unknown): string {
  const { cause, message } = error as { cause?: { code?: string }; message?: string };
  return cause?.code ?? message ?? String(error);
}

/** The first that the server lists. */
export async function firstModel(baseUrl: string, call: PlainCall): Promise<string> {
  const list = (await callPlain(baseUrl, '/models', call)) as { data?: readonly { id?: unknown }[] };
  const id = list.data?.[0]?.id;
  if (typeof id !== 'string')
    throw new TargetError(`${baseUrl}/models lists no model; name one with --model`);
  return id;
}
