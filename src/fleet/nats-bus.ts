// The message system of a fleet: NATS. Only this file knows that it is NATS.

import { randomBytes } from 'node:crypto';
import type { Msg, NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import { messageOf } from '../runtime/error-message.ts';
import type { Bus, BusListener, BusState } from './bus.ts';
import { ChunkReader, fromWire, inChunks, type Sender, toWire } from './wire.ts';

/** Reserved for headers within the largest payload. */
const MARGIN_BYTES = 1024;
const RECONNECT_MS = 250;
/** A dead link is noticed after this many unanswered pings. */
const PING_MS = 2000;
const LOST_PINGS = 2;
/** After this time another server is tried. */
const CONNECT_MS = 5000;
/** Distinct problems reported until the link changes, each once. */
const MOST_PROBLEMS = 100;
/** Limit for sending the last messages on close. */
const DRAIN_MS = 5000;

export interface NatsBus extends Bus {
  readonly connection: NatsConnection;
}

export interface NatsListeners {
  /** The reason not to use the server that was reached, if there is one. */
  readonly refusal: (connection: NatsConnection) => string | undefined;
  readonly onProblem: (message: string) => void;
}

/** Reconnects for as long as it lives, also where credentials are refused: they may be renewed. */
export async function connectNats(
  options: NodeConnectionOptions,
  listeners: NatsListeners,
): Promise<NatsBus> {
  const { connect } = await import('@nats-io/transport-node');
  const connection = await connect({
    timeout: CONNECT_MS,
    ...options,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_MS,
    pingInterval: PING_MS,
    maxPingOut: LOST_PINGS,
    ignoreAuthErrorAbort: true,
  });
  const refusal = listeners.refusal(connection);
  if (refusal === undefined) return new ConnectedBus(connection, options.inboxPrefix, listeners);
  await connection.close();
  throw new Error(refusal);
}

class ConnectedBus implements NatsBus {
  readonly connection: NatsConnection;
  readonly #inboxPrefix: string | undefined;
  readonly #refusal: NatsListeners['refusal'];
  readonly #reportProblem: (message: string) => void;
  readonly #problems = new Set<string>();
  readonly #listeners = new Set<(state: BusState) => void>();
  /** Subscribe again. */
  readonly #refused = new Set<() => void>();
  readonly #sender: Sender = { id: randomBytes(4).readUInt32BE(), messages: 0 };
  readonly #mostBytes: number;
  #state: BusState = 'connected';

  constructor(
    connection: NatsConnection,
    inboxPrefix: string | undefined,
    { refusal, onProblem }: NatsListeners,
  ) {
    this.connection = connection;
    this.#inboxPrefix = inboxPrefix;
    this.#refusal = refusal;
    this.#reportProblem = onProblem;
    this.#mostBytes = (connection.info?.max_payload ?? 2 ** 20) - MARGIN_BYTES;
    void this.#watch();
  }

  get state(): BusState {
    return this.#state;
  }

  publish(subject: string, message: unknown): void {
    this.#send(subject, message, undefined);
  }

  async request(subject: string, message: unknown, timeoutMs: number): Promise<unknown> {
    const { createInbox } = await import('@nats-io/transport-node');
    const inbox = createInbox(this.#inboxPrefix);
    const chunks = new ChunkReader();
    return new Promise((resolve, reject) => {
      const subscription = this.connection.subscribe(inbox, {
        callback: (error, received) => {
          if (error !== null) return end(() => reject(error));
          if (received.headers?.code === 503) {
            return end(() => reject(new Error(`nobody listens on ${subject}`)));
          }
          const whole = chunks.take(received.data);
          if (whole !== undefined) end(() => resolve(fromWire(whole)));
        },
      });
      const timer = setTimeout(
        () => end(() => reject(new Error(`no answer on ${subject} within ${timeoutMs} ms`))),
        timeoutMs,
      );
      const end = (settle: () => void) => {
        clearTimeout(timer);
        subscription.unsubscribe();
        settle();
      };
      this.#send(subject, message, inbox);
    });
  }

  subscribe(subject: string, listener: BusListener, onRefused: () => void = () => {}): () => void {
    const begin = () => {
      const chunks = new ChunkReader();
      return this.connection.subscribe(subject, {
        callback: (error, received) => {
          if (error === null) return this.#handle(received, chunks, listener);
          // The client drops a subscription that was refused.
          this.#refused.add(again);
          this.#onProblem(messageOf(error));
          onRefused();
        },
      });
    };
    let subscription = begin();
    const again = () => {
      subscription = begin();
    };
    return () => {
      this.#refused.delete(again);
      subscription.unsubscribe();
    };
  }

  onState(listener: (state: BusState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    // Drained only while connected: without a connection draining would wait for long.
    if (this.#state === 'connected') {
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([
        this.connection.drain().catch(() => {}),
        new Promise<void>((resolve) => {
          timer = setTimeout(resolve, DRAIN_MS);
        }),
      ]);
      clearTimeout(timer);
    }
    await this.connection.close().catch(() => {});
  }

  #handle(received: Msg, chunks: ChunkReader, listener: BusListener): void {
    // From a server that was refused and is being left.
    if (this.#state !== 'connected') return;
    const whole = chunks.take(received.data);
    if (whole === undefined) return;
    const { reply } = received;
    try {
      listener(
        fromWire(whole),
        reply === undefined || reply === '' ? undefined : (answer) => this.#send(reply, answer, undefined),
      );
    } catch (error) {
      this.#onProblem(`a message on ${received.subject} cannot be read: ${messageOf(error)}`);
    }
  }

  #send(subject: string, message: unknown, reply: string | undefined): void {
    // A message kept until the link is back would be outdated: those that matter are repeated.
    if (this.#state !== 'connected') return;
    try {
      for (const part of inChunks(toWire(message), this.#mostBytes, this.#sender)) {
        this.connection.publish(subject, part, reply === undefined ? {} : { reply });
      }
    } catch (error) {
      // A sender that needs an answer asks again.
      this.#onProblem(`a message on ${subject} could not be sent: ${messageOf(error)}`);
    }
  }

  async #watch(): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === 'disconnect') this.#become('cut-off');
      else if (status.type === 'reconnect') this.#return();
      else if (status.type === 'error') this.#onProblem(messageOf(status.error));
    }
    this.#become('closed');
  }

  /** Another server may have been reached: it is checked again. */
  #return(): void {
    const refusal = this.#refusal(this.connection);
    if (refusal === undefined) {
      this.#become('connected');
      for (const subscribe of [...this.#refused]) {
        this.#refused.delete(subscribe);
        subscribe();
      }
      return;
    }
    this.#onProblem(refusal);
    void this.connection.reconnect().catch(() => {});
  }

  /** The same failure comes several times a second: it is reported once. */
  #onProblem(message: string): void {
    if (this.#problems.has(message)) return;
    if (this.#problems.size === MOST_PROBLEMS) this.#problems.clear();
    this.#problems.add(message);
    this.#reportProblem(message);
  }

  #become(state: BusState): void {
    if (state === this.#state) return;
    this.#state = state;
    if (state === 'connected') this.#problems.clear();
    for (const listener of this.#listeners) listener(state);
  }
}
