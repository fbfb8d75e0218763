// Servers that are asked by others: a real one with the embedded model, or a stand-in that sends what a test says.

import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openUpstreams } from '../../src/app/upstream-settings.ts';
import { parseUpstreams } from '../../src/config-upstreams.ts';
import type { Upstreams } from '../../src/upstream/upstreams.ts';
import { start } from './keyed-server.ts';
import { opened } from './opened.ts';

/** As the configuration gives them. */
export function upstreamsFrom(...upstreams: readonly object[]): Upstreams {
  const seconds = (value: unknown) => Number(value);
  const found = openUpstreams({ upstreams: parseUpstreams(upstreams, seconds) });
  if (found === undefined) throw new Error('there are no upstreams');
  return found;
}

export interface StandIn {
  readonly url: string;
  /** What it was sent. */
  readonly requests: {
    readonly url: string;
    readonly headers: IncomingHttpHeaders;
    readonly body: Record<string, unknown>;
  }[];
  /** Connections that were closed by the other side before the answer was complete. */
  left: number;
  close(): void;
}

type Answer = (response: ServerResponse, body: Record<string, unknown>) => void | Promise<void>;

/** A server that answers as `answer` has it, until the test ends. */
export async function standIn(answer: Answer): Promise<StandIn> {
  const server = await openStandIn(answer);
  opened.push(() => server.close());
  return server;
}

/** The same until it is closed. */
export async function openStandIn(answer: Answer): Promise<StandIn> {
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await textOf(request)) as Record<string, unknown>;
    found.requests.push({ url: request.url ?? '', headers: request.headers, body });
    response.once('close', () => {
      if (!response.writableFinished) found.left++;
    });
    await answer(response, body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const found: StandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: [],
    left: 0,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return found;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text;
}

/** The beginning of a stream of server-sent events. */
export function beginStream(response: ServerResponse): (data: unknown) => void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  return (data) => response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
}

export const delta = (content: string, index = 0) => ({ choices: [{ index, delta: { content } }] });
export const finish = (reason = 'stop', index = 0) => ({
  choices: [{ index, delta: {}, finish_reason: reason }],
});

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** What a stand-in reports. */
export const usage = {
  usage: { prompt_tokens: 30, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 10 } },
};

export const complete = (response: ServerResponse) => {
  const send = beginStream(response);
  for (const data of [delta('Good'), delta(' day'), finish(), { choices: [], ...usage }, '[DONE]'])
    send(data);
  response.end();
};

/** A server whose model `far` a stand-in serves. */
export async function nearTo(answer: Answer) {
  const upstream = await standIn(answer);
  const named = {
    name: 'up',
    url: upstream.url,
    key: 'sk-secret',
    models: [{ name: 'remote', as: 'far' }],
  };
  const near = await start({ upstreams: upstreamsFrom(named) });
  const post = (url: string, payload: object, headers: Record<string, string> = {}) =>
    near.app.inject({ method: 'POST', url, payload, headers });
  return { upstream, near, post };
}
