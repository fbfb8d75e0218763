// A stand-in for an OpenAI-compatible server: streams answers with given pauses, refuses, stalls or breaks off as told,
// and remembers what it was asked. Every word of a prompt counts as two tokens, and five are around it.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

interface AskedBody {
  readonly model: string;
  readonly messages?: readonly { readonly content: string }[];
  readonly prompt?: string;
  readonly max_tokens: number;
  readonly stream?: boolean;
  readonly temperature?: number;
  readonly seed?: number;
  readonly ignore_eos?: boolean;
}

export interface Asked {
  readonly body: AskedBody;
  readonly authorization: string | undefined;
  readonly path: string;
}

export type Behaviour =
  | {
      readonly kind: 'stream';
      readonly firstMs?: number;
      readonly gapMs?: number;
      /** Default one for each wanted token. */
      readonly chunks?: number;
      readonly usage?: boolean;
      /** What stands in place of the rest after N chunks. */
      readonly endAfter?: { readonly chunks: number; readonly by: 'close' | 'end' | 'error-event' };
    }
  | { readonly kind: 'refuse'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: 'hang' };

export interface CompletionStandIn {
  readonly url: string;
  /** Streamed requests in the order they came. */
  readonly asked: readonly Asked[];
  /** On which streamed requests came. */
  connections(): number;
  close(): Promise<void>;
}

export const TOKENS_PER_WORD = 2;
export const EXTRA_TOKENS = 5;
export const CACHED_TOKENS = 4;

export async function startStandIn(
  behave: (asked: Asked, n: number) => Behaviour,
): Promise<CompletionStandIn> {
  const asked: Asked[] = [];
  const sockets = new Set<Socket>();
  const server = createServer(async (request, response) => {
    if (request.url === '/v1/models') {
      response.end(JSON.stringify({ data: [{ id: 'stand-in' }, { id: 'other' }] }));
      return;
    }
    const body = JSON.parse(await textOf(request)) as AskedBody;
    const one = { body, authorization: request.headers.authorization, path: request.url ?? '' };
    if (body.stream !== true) {
      response.end(JSON.stringify({ choices: [{ text: 'a' }], usage: usageOf(body, 1) }));
      return;
    }
    asked.push(one);
    sockets.add(request.socket);
    await answer(response, body, behave(one, asked.length - 1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    connections: () => sockets.size,
    close: () => close(server),
  };
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of request.setEncoding('utf8')) text += piece;
  return text;
}

function usageOf(body: AskedBody, outputTokens: number): object {
  const text = body.messages?.[0]?.content ?? body.prompt ?? '';
  return {
    prompt_tokens: EXTRA_TOKENS + TOKENS_PER_WORD * text.split(' ').length,
    completion_tokens: outputTokens,
    prompt_tokens_details: { cached_tokens: CACHED_TOKENS },
  };
}

async function answer(response: ServerResponse, body: AskedBody, behaviour: Behaviour): Promise<void> {
  if (behaviour.kind === 'hang') return;
  if (behaviour.kind === 'refuse') {
    response.writeHead(behaviour.status, behaviour.headers);
    response.end(JSON.stringify({ error: { message: `refused with ${behaviour.status}` } }));
    return;
  }
  const { firstMs = 0, gapMs = 0, chunks = body.max_tokens, usage = true, endAfter } = behaviour;
  const send = (value: object) => response.write(`data: ${JSON.stringify(value)}\n\n`);
  const isChat = body.messages !== undefined;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (isChat) send({ choices: [{ delta: { role: 'assistant', content: '' } }] });
  for (let n = 0; n < chunks; n++) {
    if (endAfter?.chunks === n) {
      breakOff(response, endAfter.by);
      return;
    }
    await sleep(n === 0 ? firstMs : gapMs);
    send({ choices: [isChat ? { delta: { content: 'ü ' } } : { text: 'ü ' }] });
  }
  send({ choices: [{ ...(isChat ? { delta: {} } : { text: '' }), finish_reason: 'length' }] });
  if (usage) send({ choices: [], usage: usageOf(body, chunks) });
  response.end('data: [DONE]\n\n');
}

function breakOff(response: ServerResponse, by: 'close' | 'end' | 'error-event'): void {
  // Only once what was written is on its way.
  if (by === 'close') response.write(': bye\n\n', () => response.destroy());
  else if (by === 'end') response.end();
  else response.end(`data: ${JSON.stringify({ error: { message: 'out of luck' } })}\n\n`);
}
