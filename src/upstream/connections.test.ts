import { createServer, type Server } from 'node:http';
import type { AddressInfo, LookupFunction, Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bytesOf, Connections } from './connections.ts';

let server: Server;
let connections: Connections;
let sockets: Set<Socket>;
/** Whether answers go on after the part that matters. */
let isEndless: boolean;

const lookup: LookupFunction = (_host, _options, callback) => callback(null, '127.0.0.1', 4);

beforeEach(async () => {
  sockets = new Set();
  isEndless = false;
  server = createServer((request, response) => {
    sockets.add(request.socket);
    request.resume().on('end', () => {
      response.write('end\n');
      if (!isEndless) setTimeout(() => response.end('rest'), 5);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  connections = new Connections(
    new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    lookup,
  );
});
afterEach(() => {
  connections.close();
  server.closeAllConnections();
  server.close();
});

async function ask(isComplete: boolean): Promise<void> {
  const { signal } = new AbortController();
  const response = await connections.post({ path: '/', headers: {}, body: '{}', signal, timeoutMs: 5000 });
  const closed = new Promise((resolve) => response.once('close', resolve));
  const options = { timeoutMs: 5000, mostBytes: 1000, signal, isComplete: () => isComplete };
  for await (const chunk of bytesOf(response, options)) {
    if (chunk.includes('end')) break;
  }
  await closed;
}

describe('a connection to an upstream', () => {
  it('serves the next request where the answer was complete before its last byte', async () => {
    for (let i = 0; i < 3; i++) await ask(true);
    expect(sockets.size).toBe(1);
  });

  it('is closed where an answer is left in its midst', async () => {
    isEndless = true;
    for (let i = 0; i < 2; i++) await ask(false);
    expect(sockets.size).toBe(2);
  });

  it('is closed where a complete answer does not end', async () => {
    isEndless = true;
    for (let i = 0; i < 2; i++) await ask(true);
    expect(sockets.size).toBe(2);
  });
});
