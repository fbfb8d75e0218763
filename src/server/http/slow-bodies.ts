// Refuses bodies that stall with 408, so that a client cannot hold a connection for nothing. An upload that flows may take as
// long as it needs.

import { Transform, type TransformCallback } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError, ClientLeft } from './errors.ts';

/** A body that brings less than this within the time stalls. */
const LEAST_BYTES = 16 * 1024;

export function refuseSlowBodies(app: FastifyInstance, stallMs: number): void {
  app.addHook('preParsing', async (request, _reply, payload) => {
    if (!hasBody(request)) return payload;
    const body = new FlowingBody(stallMs);
    // Node calls it an error of the request that its connection has closed.
    payload.on('error', () => body.destroy(new ClientLeft()));
    payload.on('close', () => {
      if (!payload.readableEnded) body.destroy();
    });
    return payload.pipe(body);
  });
  // The response was sent before the whole body was read: a client that keeps sending is cut off after the same time.
  app.addHook('onResponse', async ({ raw }) => {
    if (raw.complete) return;
    const timer = setTimeout(() => raw.destroy(), stallMs).unref();
    raw.once('close', () => clearTimeout(timer));
  });
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

class FlowingBody extends Transform {
  readonly #timer: NodeJS.Timeout;
  #bytes = 0;

  constructor(stallMs: number) {
    super();
    this.#timer = setInterval(() => {
      // Bytes that the server has not read yet are not the client's fault.
      if (this.#bytes < LEAST_BYTES && this.readableLength === 0) this.destroy(stalled(stallMs));
      this.#bytes = 0;
    }, stallMs).unref();
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#bytes += chunk.length;
    done(null, chunk);
  }

  override _final(done: (error?: Error | null) => void): void {
    clearInterval(this.#timer);
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearInterval(this.#timer);
    done(error);
  }
}

function stalled(stallMs: number): ApiError {
  const message = `the request body stalled: fewer than ${LEAST_BYTES} bytes of it came within ${stallMs / 1000} s`;
  return new ApiError(408, message, { code: 'request_stalled', headers: { connection: 'close' } });
}
