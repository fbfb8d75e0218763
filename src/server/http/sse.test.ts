import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { SseStream } from './sse.ts';

/** Serves one request with `serve` and hands the response to `read`. */
async function exchange(
  serve: (response: ServerResponse) => Promise<void>,
  read: (response: IncomingMessage) => Promise<void>,
): Promise<void> {
  let served: Promise<void> | undefined;
  const server = createServer((_request, response) => {
    served = serve(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request({ port, host: '127.0.0.1' }, resolve).on('error', reject).end();
    });
    await read(response);
    await served;
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return text;
}

describe('a stream of events', () => {
  it('writes each event on a line of its own and ends with the mark', async () => {
    await exchange(
      async (response) => {
        const stream = new SseStream(response, { 'x-request-id': 'r1' }, 60_000);
        await stream.send({ text: 'two\nlines' });
        await stream.send({ n: 1 }, 'step');
        await stream.done();
      },
      async (response) => {
        expect(response.headers['content-type']).toBe('text/event-stream; charset=utf-8');
        expect(response.headers['x-request-id']).toBe('r1');
        expect(await textOf(response)).toBe(
          'data: {"text":"two\\nlines"}\n\nevent: step\ndata: {"n":1}\n\ndata: [DONE]\n\n',
        );
      },
    );
  });

  it('says something while there is nothing to say', async () => {
    await exchange(
      async (response) => {
        const stream = new SseStream(response, {}, 5);
        await new Promise((resolve) => setTimeout(resolve, 50));
        stream.end();
      },
      async (response) => expect(await textOf(response)).toMatch(/^(: keep-alive\n\n)+$/),
    );
  });

  it('waits for a client that does not read, and no longer once it has left', async () => {
    let sent = 0;
    await exchange(
      async (response) => {
        const stream = new SseStream(response, {}, 60_000);
        const chunk = 'x'.repeat(1 << 20);
        for (; sent < 512 && !response.destroyed; sent++) await stream.send(chunk);
      },
      async (response) => {
        response.pause();
        // Long enough for a writer that does not wait to be done with all of it.
        let before = -1;
        while (before !== sent) {
          before = sent;
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        expect(sent).toBeLessThan(512);
        response.destroy();
      },
    );
    expect(sent).toBeLessThan(512);
  });

  it('ends once it is aborted, though its client does not read', async () => {
    const controller = new AbortController();
    let ended = false;
    await exchange(
      async (response) => {
        const stream = new SseStream(response, {}, 60_000, controller.signal);
        const chunk = 'x'.repeat(1 << 20);
        while (!controller.signal.aborted) await stream.send(chunk);
        stream.fail({ data: { error: 'late' } });
        ended = response.writableEnded;
      },
      async (response) => {
        response.pause();
        setTimeout(() => controller.abort(), 100);
        await new Promise<void>((resolve) => controller.signal.addEventListener('abort', () => resolve()));
      },
    );
    expect(ended).toBe(true);
  });
});
