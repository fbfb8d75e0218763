// Connections to one upstream: posts JSON to its own address and to no other. Redirects are not followed.

import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { UpstreamError } from './upstream-error.ts';

interface Post {
  /** After the base address. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** How long the end of an answer is waited for, so that its connection can be used again. */
const LEFTOVER_MS = 1000;

/** How soon a connection that the upstream has closed already fails. */
const STALE_MS = 100;

export class Connections {
  readonly #url: URL;
  readonly #lookup: LookupFunction;
  readonly #agent: HttpAgent | HttpsAgent;

  constructor(url: URL, lookup: LookupFunction) {
    this.#url = url;
    this.#lookup = lookup;
    this.#agent =
      url.protocol === 'https:' ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  }

  /** Resolves with whatever is answered. Throws UpstreamError, or the signal's reason. */
  async post(what: Post): Promise<IncomingMessage> {
    const startMs = performance.now();
    const first = this.#send(what);
    try {
      return await first.response;
    } catch (error) {
      // The upstream closed a connection that was kept, just as it was used again: it has not read the request. One that has
      // worked on it for a while may have: it is not asked twice.
      const isReset = first.request.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      const isStale = isReset && performance.now() - startMs < STALE_MS;
      if (!isStale || what.signal.aborted) throw failureOf(error, what.signal);
    }
    try {
      return await this.#send(what).response;
    } catch (error) {
      throw failureOf(error, what.signal);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #send({ path, headers, body, signal, timeoutMs }: Post): {
    readonly request: ClientRequest;
    readonly response: Promise<IncomingMessage>;
  } {
    const send = this.#url.protocol === 'https:' ? httpsRequest : httpRequest;
    const base = this.#url.pathname.replace(/\/$/, '');
    const request = send({
      protocol: this.#url.protocol,
      hostname: this.#url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: this.#url.port,
      path: `${base}${path}`,
      method: 'POST',
      agent: this.#agent,
      lookup: this.#lookup,
      signal,
      headers: {
        ...headers,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        // Nothing here unpacks answers.
        'accept-encoding': 'identity',
      },
    });
    const response = new Promise<IncomingMessage>((resolve, reject) => {
      const silence = setTimeout(() => request.destroy(silenceOf(timeoutMs)), timeoutMs);
      request.once('response', (answered) => {
        clearTimeout(silence);
        resolve(answered);
      });
      // Stays for as long as the answer is read: a connection may break while nobody reads.
      request.on('error', (error) => {
        clearTimeout(silence);
        reject(error);
      });
    });
    request.end(body);
    return { request, response };
  }
}

interface ReadOptions {
  readonly timeoutMs: number;
  readonly mostBytes: number;
  readonly signal: AbortSignal;
  /** Whether what was read is all that matters of the answer. */
  readonly isComplete?: () => boolean;
}

function silenceOf(timeoutMs: number): UpstreamError {
  return new UpstreamError('timeout', `did not answer for ${timeoutMs / 1000} s`);
}

function failureOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof UpstreamError) return error;
  const { code } = error as NodeJS.ErrnoException;
  return new UpstreamError('unreachable', `cannot be reached${code === undefined ? '' : ` (${code})`}`);
}

/**
 * The bytes of an answer. Throws where the upstream is silent for too long, where the connection breaks, where there are too
 * many, and the signal's reason once it is aborted. Leaving the loop early closes the connection, unless the answer is complete.
 */
export async function* bytesOf(
  response: IncomingMessage,
  { timeoutMs, mostBytes, signal, isComplete = () => false }: ReadOptions,
): AsyncGenerator<Buffer, void, void> {
  let silence: NodeJS.Timeout | undefined;
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(() => response.destroy(silenceOf(timeoutMs)), timeoutMs);
  };
  let bytes = 0;
  try {
    listen();
    const chunks: AsyncIterable<Buffer> = response.iterator({ destroyOnReturn: false });
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > mostBytes) throw new UpstreamError('invalid', `sent more than ${mostBytes} bytes`);
      // A client that reads slowly is not the upstream's silence.
      clearTimeout(silence);
      yield chunk;
      listen();
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof UpstreamError) throw error;
    throw new UpstreamError('cut', 'broke the connection before the answer was complete');
  } finally {
    clearTimeout(silence);
    if (isComplete()) letPass(response);
    else if (!response.readableEnded) response.destroy();
  }
}

/** Lets the rest of a complete answer pass, for a moment, so that the connection can be used again. */
function letPass(response: IncomingMessage): void {
  if (response.readableEnded || response.destroyed) return;
  const timer = setTimeout(() => response.destroy(), LEFTOVER_MS);
  timer.unref();
  response.once('close', () => clearTimeout(timer));
  response.on('error', () => {});
  response.resume();
}
