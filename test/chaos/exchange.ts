// One request and all that came back, as bytes: from clients that wait for everything, that leave, or that read
// hardly at all. Knows nothing of what the bytes mean.

import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';

export interface Ask {
  readonly method: 'GET' | 'POST' | 'DELETE' | 'PUT';
  readonly path: string;
  readonly key?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export type Manner =
  | { readonly kind: 'patient' }
  /** Whatever has come by then. */
  | { readonly kind: 'leaves'; readonly afterMs: number }
  | { readonly kind: 'leaves in mid-stream'; readonly afterEvents: number }
  /** A byte now and then for so long; then it takes the rest. */
  | { readonly kind: 'slow'; readonly paceMs: number; readonly forMs: number };

export const patient: Manner = { kind: 'patient' };

export interface Exchange {
  /** `late`: nothing more came within the limit. */
  readonly end: 'complete' | 'left' | 'broken' | 'late';
  /** Undefined where not even a header came. */
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Why it broke. */
  readonly problem?: string;
  readonly startedMs: number;
  readonly endedMs: number;
}

export function exchange(url: string, ask: Ask, manner: Manner, limitMs: number): Promise<Exchange> {
  return new Promise((resolve) => {
    const startedMs = performance.now();
    const pieces: Buffer[] = [];
    const timers: NodeJS.Timeout[] = [];
    let response: IncomingMessage | undefined;
    let settled = false;
    const content = ask.body === undefined ? {} : { 'content-type': 'application/json' };
    const headers: Record<string, string> = { ...content, ...ask.headers };
    if (ask.key !== undefined) headers.authorization = `Bearer ${ask.key}`;
    // Without an agent each client has a connection of its own.
    const request = httpRequest(`${url}${ask.path}`, { method: ask.method, headers, agent: false });
    const settle = (end: Exchange['end'], problem?: string) => {
      if (settled) return;
      settled = true;
      for (const timer of timers) clearTimeout(timer);
      request.destroy();
      resolve({
        end,
        status: response?.statusCode,
        headers: response?.headers ?? {},
        text: Buffer.concat(pieces).toString('utf8'),
        ...(problem === undefined ? {} : { problem }),
        startedMs,
        endedMs: performance.now(),
      });
    };
    timers.push(setTimeout(() => settle('late'), limitMs));
    if (manner.kind === 'leaves') timers.push(setTimeout(() => settle('left'), manner.afterMs));
    // Errors come after the end, too: a client that has left hears of its broken connection.
    request.on('error', (error) => settle('broken', error.message));
    request.once('response', (incoming) => {
      response = incoming;
      let events = 0;
      const ended = () => {
        if (incoming.complete) settle('complete');
        else settle('broken', 'the connection ended in the middle');
      };
      incoming.on('error', (error) => settle('broken', error.message));
      incoming.once('close', ended);
      const readAll = () => {
        incoming.on('data', (piece: Buffer) => {
          pieces.push(piece);
          if (manner.kind !== 'leaves in mid-stream') return;
          events += piece.toString('latin1').split('\n\n').length - 1;
          if (events >= manner.afterEvents) settle('left');
        });
        incoming.once('end', ended);
      };
      if (manner.kind === 'slow') readSlowly(incoming, manner, pieces, timers, readAll);
      else readAll();
    });
    request.end(ask.body);
  });
}

/** Node stops reading the socket once some kilobytes lie unread, and the server has to wait. */
function readSlowly(
  incoming: IncomingMessage,
  { paceMs, forMs }: Extract<Manner, { kind: 'slow' }>,
  pieces: Buffer[],
  timers: NodeJS.Timeout[],
  readAll: () => void,
): void {
  incoming.pause();
  const endMs = performance.now() + forMs;
  const next = () => {
    const byte = incoming.read(1) as Buffer | null;
    if (byte !== null) pieces.push(byte);
    if (performance.now() >= endMs) {
      readAll();
      incoming.resume();
    } else timers.push(setTimeout(next, paceMs));
  };
  timers.push(setTimeout(next, paceMs));
}
