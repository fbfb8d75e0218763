import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { connectNats } from './nats-bus.ts';

/** Speaks as much of the message system's protocol as a connection needs, until it is told to fall silent. */
class SilencedServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  silent = false;

  constructor() {
    this.#server = createServer((socket) => this.#greet(socket));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  end(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #greet(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    const info = { server_id: 'one', version: '2.10.0', proto: 1, headers: true, max_payload: 2 ** 20 };
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.on('data', (data) => {
      if (!this.silent && data.includes('PING')) socket.write('PONG\r\n');
    });
  }
}

describe('the bus over NATS', () => {
  let server: SilencedServer | undefined;
  afterEach(() => server?.end());

  // The client's own patience with each try to connect again is longer than the limit of this test.
  it('closes though the message system falls silent before the last words are out', async () => {
    server = new SilencedServer();
    const bus = await connectNats({ servers: await server.listen() }, () => {});
    bus.listen('a.subject', () => {});
    await bus.connection.flush();
    server.silent = true;
    await bus.close();
    expect(bus.connection.isClosed()).toBe(true);
  }, 20_000);
});
