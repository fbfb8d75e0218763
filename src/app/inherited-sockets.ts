// Sockets that a service manager opened and hands on (systemd's socket activation): it holds them while no server runs, so that
// connections wait for the next one instead of being refused.

import type { Server as HttpServer } from 'node:http';
import { createServer, Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { ConfigError, takeVariables } from '../config.ts';

/** Descriptors, counted from the first that may be handed on. */
export interface InheritedSockets {
  readonly main: readonly number[];
  /** Those named `admin`. */
  readonly admin: readonly number[];
}

const FIRST_DESCRIPTOR = 3;
/** A connection that has come sends its request within this time, or it is not waited for. */
const SILENCE_MS = 1000;
const LOOK_MS = 10;

/** Undefined where none was handed to this process. */
export function takeInheritedSockets(): InheritedSockets | undefined {
  const taken = takeVariables(['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']);
  const { LISTEN_PID: owner, LISTEN_FDS: given, LISTEN_FDNAMES: names = '' } = taken;
  if (given === undefined || Number(owner) !== process.pid) return undefined;
  const count = Number(given);
  if (!Number.isInteger(count) || count < 1)
    throw new ConfigError(`LISTEN_FDS: ${given} is no number of sockets`);
  const named = names.split(':');
  const all = Array.from({ length: count }, (_, at) => FIRST_DESCRIPTOR + at);
  const isAdmin = (descriptor: number) => named[descriptor - FIRST_DESCRIPTOR] === 'admin';
  return { main: all.filter((one) => !isAdmin(one)), admin: all.filter(isAdmin) };
}

export interface Listening {
  /** Of the first socket with an address of the network, else of the first. */
  readonly url: string;
  /** Addresses of the network. */
  readonly hosts: readonly string[];
  /** Leaves new connections to whoever has the sockets next. Resolves when those that had come have sent their requests. */
  leave(): Promise<void>;
}

export async function listenOnInherited(
  app: FastifyInstance,
  descriptors: readonly number[],
  scheme: 'http' | 'https',
): Promise<Listening> {
  await app.ready();
  const own = app.server as unknown as HttpServer;
  const [first, ...more] = descriptors as [number, ...number[]];
  const silent = silentConnections(own, scheme);
  const servers: Server[] = [];
  for (const descriptor of [first, ...more]) {
    const server = descriptor === first ? own : forwarding(own);
    await listen(server, descriptor);
    servers.push(server);
  }
  const places = servers.map((server) => placeOf(server, scheme));
  return {
    url: (places.find(({ host }) => host !== undefined) ?? places[0])?.url ?? '',
    hosts: places.flatMap(({ host }) => (host === undefined ? [] : [host])),
    leave: async () => {
      // An HTTP server's own `close` would end connections whose request is still on its way, too.
      for (const server of servers) if (server.listening) Server.prototype.close.call(server);
      const endMs = performance.now() + SILENCE_MS;
      while (silent.size > 0 && performance.now() < endMs) await sleep(LOOK_MS);
    },
  };
}

/** Connections that have made no request yet. */
function silentConnections(own: HttpServer, scheme: 'http' | 'https'): ReadonlySet<unknown> {
  const silent = new Set<unknown>();
  // A request's socket is another object than its connection's where there is TLS.
  const nameOf = (socket: Socket) =>
    scheme === 'http' ? socket : `${socket.remoteAddress} ${socket.remotePort}`;
  own.on('connection', (socket: Socket) => {
    const name = nameOf(socket);
    silent.add(name);
    socket.once('close', () => silent.delete(name));
  });
  own.on('request', ({ socket }) => silent.delete(nameOf(socket)));
  return silent;
}

/** A server of Node has one socket: connections of the others are given to it. */
function forwarding(own: HttpServer): Server {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket: Socket) =>
    own.emit('connection', socket),
  );
  own.once('close', () => server.close());
  return server;
}

function listen(server: Server, fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) =>
      reject(new ConfigError(`LISTEN_FDS: descriptor ${fd} is no socket to listen on: ${error.message}`)),
    );
    server.listen({ fd }, resolve);
  });
}

function placeOf(
  server: Server,
  scheme: string,
): { readonly url: string; readonly host: string | undefined } {
  const address = server.address();
  if (address === null || typeof address === 'string')
    return { url: `unix:${address ?? ''}`, host: undefined };
  const { address: host, port, family } = address;
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : family === 'IPv6' ? `[${host}]` : host;
  return { url: `${scheme}://${shown}:${port}`, host };
}
