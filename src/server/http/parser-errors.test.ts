import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { endless, start } from '../../../test/support/keyed-server.ts';
import { waitUntil } from '../../../test/support/server-process.ts';

interface Connection {
  readonly socket: Socket;
  /** What came so far. */
  text(): string;
  readonly closed: Promise<void>;
}

function open(url: string): Connection {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.setEncoding('utf8').on('data', (data) => {
    text += data;
  });
  socket.on('error', () => {});
  return {
    socket,
    text: () => text,
    closed: new Promise((resolve) => {
      socket.once('close', () => resolve());
    }),
  };
}

function errorIn(text: string) {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  // Perhaps in chunks.
  const json = body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1);
  return { status: Number(head.split(' ')[1]), error: JSON.parse(json).error };
}

describe('what cannot be read as HTTP', () => {
  it.each([
    ['no request at all', 'Good morning\r\n\r\n', 400, 'invalid_http'],
    [
      'a body in broken chunks',
      'POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
      400,
      'invalid_http',
    ],
    [
      'headers without end',
      `GET / HTTP/1.1\r\nhost: localhost\r\nx-long: ${'a'.repeat(40_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    ['no Host', 'GET /v1/models HTTP/1.1\r\nx-api-key: cl-unknown\r\n\r\n', 400, 'missing_host'],
    [
      'an expectation that cannot be met',
      'POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nexpect: a miracle\r\ncontent-length: 2\r\n\r\n{}',
      417,
      'unsupported_expectation',
    ],
  ])('is refused in the shape of any other error: %s', async (_, sent, status, code) => {
    const connection = open(await (await start()).listen());
    connection.socket.write(sent);
    await connection.closed;
    expect(errorIn(connection.text())).toMatchObject({
      status,
      error: { code, type: 'invalid_request_error' },
    });
  });

  it('needs no Host in HTTP/1.0', async () => {
    const connection = open(await (await start()).listen());
    connection.socket.write('GET /health HTTP/1.0\r\n\r\n');
    await connection.closed;
    expect(connection.text()).toMatch(/^HTTP\/1.1 200/);
  });

  it('is refused as too late where it does not come', async () => {
    const server = await start();
    const connection = open(await server.listen());
    server.app.server.once('connection', (socket) =>
      server.app.server.emit('clientError', { code: 'ERR_HTTP_REQUEST_TIMEOUT' }, socket),
    );
    await connection.closed;
    expect(errorIn(connection.text())).toMatchObject({ status: 408, error: { type: 'timeout_error' } });
  });

  it.each([true, false])('never gets into an answer that is under way, streamed %s', async (stream) => {
    const server = await start();
    const connection = open(await server.listen());
    const body = JSON.stringify({ ...endless, stream });
    const request = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    connection.socket.write(request);
    await waitUntil(async () => (await server.pool.engine.stats()).generatedTokens > 0);
    if (stream) await waitUntil(() => connection.text().includes('data: '));
    connection.socket.write('Good morning\r\n\r\n');
    await connection.closed;
    expect(connection.text()).not.toContain('HTTP/1.1 400');
    expect(connection.text()).not.toContain('invalid_http');
  });
});
