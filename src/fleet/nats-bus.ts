// The message system of a fleet: NATS. Alone here it is known that it is NATS.

import { randomBytes } from 'node:crypto';
import type { Msg, NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import { messageOf } from '../runtime/error-message.ts';
import type { Bus, BusListener, BusState } from './bus.ts';
import { packed, type Sender, Unpacker } from './parcels.ts';
import { fromWire, toWire } from './wire.ts';

/** What is kept free of the most that a message may have. */
const MARGIN_BYTES = 1024;
const RECONNECT_MS = 250;
/** A link that is silently dead is noticed after so many pings without an answer. */
const PING_MS = 2000;
const LOST_PINGS = 2;
/** A server that does not speak within this time is given up for the next one. */
const CONNECT_MS = 5000;
/** Different problems that are told until the link changes; each of them once. */
const MOST_PROBLEMS = 100;
/** What was said last goes out within this, or nobody takes it any more. */
const DRAIN_MS = 5000;

export interface NatsBus extends Bus {
  readonly connection: NatsConnection;
}

export interface NatsListeners {
  /** Says why the server that was reached must not be used, if it must not. */
  readonly refusal: (connection: NatsConnection) => string | undefined;
  readonly onProblem: (message: string) => void;
}

/** Goes on trying to connect again for as long as it lives, also where its credentials are refused: they may be renewed. */
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
  if (refusal === undefined) return new ConnectedBus(connection, listeners);
  await connection.close();
  throw new Error(refusal);
}

class ConnectedBus implements NatsBus {
  readonly connection: NatsConnection;
  readonly #refusal: NatsListeners['refusal'];
  readonly #tellProblem: (message: string) => void;
  readonly #problems = new Set<string>();
  readonly #listeners = new Set<(state: BusState) => void>();
  readonly #sender: Sender = { id: randomBytes(4).readUInt32BE(), parcels: 0 };
  readonly #mostBytes: number;
  #state: BusState = 'connected';

  constructor(connection: NatsConnection, { refusal, onProblem }: NatsListeners) {
    this.connection = connection;
    this.#refusal = refusal;
    this.#tellProblem = onProblem;
    this.#mostBytes = (connection.info?.max_payload ?? 2 ** 20) - MARGIN_BYTES;
    void this.#watch();
  }

  get state(): BusState {
    return this.#state;
  }

  tell(subject: string, message: unknown): void {
    this.#send(subject, message, undefined);
  }

  async ask(subject: string, message: unknown, timeoutMs: number): Promise<unknown> {
    const { createInbox } = await import('@nats-io/transport-node');
    const inbox = createInbox();
    const unpacker = new Unpacker();
    return new Promise((resolve, reject) => {
      const subscription = this.connection.subscribe(inbox, {
        callback: (error, received) => {
          if (error !== null) return end(() => reject(error));
          if (received.headers?.code === 503) {
            return end(() => reject(new Error(`nobody listens on ${subject}`)));
          }
          const whole = unpacker.take(received.data);
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

  listen(subject: string, listener: BusListener): () => void {
    const unpacker = new Unpacker();
    const subscription = this.connection.subscribe(subject, {
      callback: (error, received) => {
        if (error !== null) return this.#onProblem(messageOf(error));
        this.#hear(received, unpacker, listener);
      },
    });
    return () => subscription.unsubscribe();
  }

  onState(listener: (state: BusState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    // Flushed first: a connection that is cut off has nobody to drain to, and one that is cut off meanwhile drains for long.
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

  #hear(received: Msg, unpacker: Unpacker, listener: BusListener): void {
    // From a server that is refused, and left at once.
    if (this.#state !== 'connected') return;
    const whole = unpacker.take(received.data);
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
    // Kept until the link is back, it would be old news: what matters is said again.
    if (this.#state !== 'connected') return;
    try {
      for (const part of packed(toWire(message), this.#mostBytes, this.#sender)) {
        this.connection.publish(subject, part, reply === undefined ? {} : { reply });
      }
    } catch (error) {
      // Whoever waits for it asks again.
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

  /** To the same server, or to another: it must be one that may be used. */
  #return(): void {
    const refusal = this.#refusal(this.connection);
    if (refusal === undefined) {
      this.#become('connected');
      return;
    }
    this.#onProblem(refusal);
    void this.connection.reconnect().catch(() => {});
  }

  /** What fails fails again several times a second. */
  #onProblem(message: string): void {
    if (this.#problems.has(message)) return;
    if (this.#problems.size === MOST_PROBLEMS) this.#problems.clear();
    this.#problems.add(message);
    this.#tellProblem(message);
  }

  #become(state: BusState): void {
    if (state === this.#state) return;
    this.#state = state;
    if (state === 'connected') this.#problems.clear();
    for (const listener of this.#listeners) listener(state);
  }
}
