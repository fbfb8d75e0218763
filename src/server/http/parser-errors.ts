// Answers what Node's HTTP parser refuses, in the shape of all other errors. Written by hand, because Fastify never sees such
// a request.

import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from './errors.ts';

type ParserError = Pick<NodeJS.ErrnoException, 'code'>;

const JSON_TYPE = 'application/json; charset=utf-8';

export class ParserErrors {
  /** The unfinished responses of each connection. */
  readonly #open = new WeakMap<Socket, Set<ServerResponse<IncomingMessage>>>();

  follow(server: Server): void {
    server.prependListener('request', ({ socket }, response) => {
      const open = this.#open.get(socket) ?? new Set();
      this.#open.set(socket, open.add(response));
      response.once('close', () => open.delete(response));
    });
    server.on('checkExpectation', ({ headers }, response) => {
      const refusal = unmetExpectation(headers.expect);
      // The client may still send a body, which is not read.
      response.writeHead(refusal.status, { 'content-type': JSON_TYPE, connection: 'close' });
      response.end(JSON.stringify(refusal.body()));
    });
  }

  answer({ code }: ParserError, socket: Socket): void {
    // Bytes of this response must not get into another one that is owed or being sent.
    if (!socket.writable || code === 'ECONNRESET' || this.#owesAnother(socket)) {
      socket.destroy();
      return;
    }
    socket.write(messageOf(refusalOf(code)));
    socket.destroySoon();
  }

  /** Whether the connection owes a response other than that to the unreadable request. */
  #owesAnother(socket: Socket): boolean {
    const open = [...(this.#open.get(socket) ?? [])];
    return open.some(({ headersSent, req }) => headersSent || req.complete);
  }
}

function unmetExpectation(expected = ''): ApiError {
  const message = `this server meets no expectation but 100-continue, and not ${JSON.stringify(expected)}; leave out the header Expect`;
  return new ApiError(417, message, { code: 'unsupported_expectation' });
}

function refusalOf(code: string | undefined): ApiError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ApiError(408, 'the request did not come in time', { code: 'request_timeout' });
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new ApiError(431, 'the request has more headers than this server reads', {
      code: 'headers_too_large',
    });
  }
  return new ApiError(400, 'the request is no HTTP/1.1 that this server can read', { code: 'invalid_http' });
}

function messageOf(refusal: ApiError): string {
  const body = JSON.stringify(refusal.body());
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
