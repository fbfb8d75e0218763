// Both ends of one HTTP response whose client reads nothing until it is resumed.

import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface UnreadResponse {
  readonly response: ServerResponse;
  /** Resolves once headers were sent. */
  readonly reader: Promise<IncomingMessage>;
  close(): void;
}

export async function unreadResponse(): Promise<UnreadResponse> {
  let accept: (response: ServerResponse) => void = () => {};
  const accepted = new Promise<ServerResponse>((resolve) => {
    accept = resolve;
  });
  const server = createServer((_request, response) => accept(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = request({ port, host: '127.0.0.1' });
  const answered = new Promise<IncomingMessage>((resolve) => client.once('response', resolve));
  client.on('error', () => {}).end();
  const response = await accepted;
  return {
    response,
    reader: answered.then((reader) => reader.on('error', () => {}).pause()),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
