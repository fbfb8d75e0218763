// One request to a gateway's HTTP edge and its response, without a socket: what the edge writes is heard at once. It stands in
// for Node's own, which spend more time on one write than the program does on one token.

import { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { ChairliftServer } from '../../src/server/create-server.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly payload?: object | string | undefined;
}

interface ResponseListener {
  onHead(status: number, headers: Readonly<Record<string, unknown>>): void;
  onData(text: string): void;
  /** Cut off where the edge did not end it. */
  onClose(isCutOff: boolean): void;
}

const socket = { remoteAddress: '127.0.0.1', encrypted: false, destroyed: false, readable: false };

class Request extends Readable {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly rawHeaders: readonly string[];
  readonly socket = socket;
  readonly httpVersion = '1.1';
  readonly httpVersionMajor = 1;
  readonly httpVersionMinor = 1;
  readonly aborted = false;
  readonly complete = true;

  constructor({ method, url, headers, payload }: HttpRequest) {
    super({ autoDestroy: false });
    this.method = method;
    this.url = url;
    const text = typeof payload === 'object' ? JSON.stringify(payload) : payload;
    const length = text === undefined ? {} : { 'content-length': String(Buffer.byteLength(text)) };
    this.headers = { host: 'sim', ...headers, ...length };
    this.rawHeaders = Object.entries(this.headers).flat();
    if (text !== undefined) this.push(text);
    this.push(null);
  }

  override _read(): void {}
}

class Response extends ServerResponse {
  readonly #listener: ResponseListener;

  constructor(request: Request, listener: ResponseListener) {
    super(request as unknown as ConstructorParameters<typeof ServerResponse>[0]);
    this.#listener = listener;
  }

  override writeHead(status: number, ...rest: unknown[]): this {
    const given = rest.at(-1);
    if (typeof given === 'object' && given !== null) {
      for (const [name, value] of Object.entries(given)) this.setHeader(name, value as string);
    }
    const headers = { ...this.getHeaders() };
    this.statusCode = status;
    // What `headersSent` looks at.
    Object.assign(this, { _header: 'sent' });
    this.#listener.onHead(status, headers);
    return this;
  }

  override flushHeaders(): void {}

  override write(data: string | Uint8Array): boolean {
    if (!this.headersSent) this.writeHead(this.statusCode);
    this.#listener.onData(typeof data === 'string' ? data : Buffer.from(data).toString('utf8'));
    return true;
  }

  override end(data?: unknown): this {
    if (this.writableEnded) return this;
    if (!this.headersSent) this.writeHead(this.statusCode);
    if (typeof data === 'string' || data instanceof Uint8Array) this.write(data);
    // What `writableEnded` looks at.
    Object.assign(this, { finished: true });
    this.emit('finish');
    this.#close();
    return this;
  }

  override destroy(): this {
    this.#close();
    return this;
  }

  #close(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    process.nextTick(() => {
      this.emit('close');
      this.#listener.onClose(!this.writableEnded);
    });
  }
}

/** Returns what closes the connection from the client's side. */
export function serve(app: ChairliftServer, request: HttpRequest, listener: ResponseListener): () => void {
  const raw = new Request(request);
  const response = new Response(raw, listener);
  app.routing(raw as unknown as Parameters<typeof app.routing>[0], response);
  return () => response.destroy();
}
