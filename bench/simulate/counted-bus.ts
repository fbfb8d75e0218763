// A message system for simulated nodes: messages are coded as on the wire, take a while, and are counted by the kind of their
// subject, with the processor time that nodes spend on coding them and on what they do with them.

import type { Bus, BusListener } from '#src/fleet/bus.ts';
import { fromWire, toWire } from '#src/fleet/wire.ts';
import type { EventQueue } from './event-queue.ts';
import { processorMs } from './processor-time.ts';

type Role = 'worker' | 'gateway';

/** Of one kind, as published. */
export interface Sent {
  readonly messages: number;
  readonly encodeMs: number;
}

/** Of one kind, to nodes of one role. */
export interface Traffic {
  readonly kind: string;
  readonly role: Role;
  deliveries: number;
  deliveredBytes: number;
  decodeMs: number;
  /** Decoded messages in the hands of their receiver. */
  handleMs: number;
}

interface Listening {
  readonly role: Role;
  readonly listener: BusListener;
  isEnded: boolean;
}

export class CountedBus {
  readonly sent = new Map<string, Sent>();
  /** By kind of message and role of its receiver. */
  readonly #traffic = new Map<string, Traffic>();
  readonly #events: EventQueue;
  readonly #delayMs: number;
  readonly #exact = new Map<string, Listening[]>();
  /** By what stands before the star. */
  readonly #wild = new Map<string, Listening[]>();
  #inboxes = 0;

  constructor(events: EventQueue, delayMs: number) {
    this.#events = events;
    this.#delayMs = delayMs;
  }

  node(role: Role): Bus {
    return {
      state: 'connected',
      publish: (subject, message) => this.#carry(subject, message, undefined),
      request: (subject, message, timeoutMs) => this.#request(role, subject, message, timeoutMs),
      subscribe: (subject, listener) => this.#subscribe(subject, { role, listener, isEnded: false }),
      onState: () => () => {},
      close: async () => {},
    };
  }

  get traffic(): readonly Traffic[] {
    return [...this.#traffic.values()];
  }

  /** What was counted so far does not count. */
  forget(): void {
    this.sent.clear();
    this.#traffic.clear();
  }

  #subscribe(subject: string, listening: Listening): () => void {
    const isWild = subject.endsWith('*');
    const [all, key] = isWild ? [this.#wild, subject.slice(0, -1)] : [this.#exact, subject];
    all.set(key, [...(all.get(key) ?? []), listening]);
    return () => {
      listening.isEnded = true;
      const left = (all.get(key) ?? []).filter((one) => one !== listening);
      if (left.length > 0) all.set(key, left);
      else all.delete(key);
    };
  }

  #request(role: Role, subject: string, message: unknown, timeoutMs: number): Promise<unknown> {
    const inbox = `inbox.x.answer.${++this.#inboxes}`;
    return new Promise((resolve, reject) => {
      const end = this.#subscribe(inbox, {
        role,
        isEnded: false,
        listener: (answer) => {
          end();
          resolve(answer);
        },
      });
      this.#events.at(this.#events.nowMs + timeoutMs, () => {
        end();
        reject(new Error(`no answer on ${subject}`));
      });
      this.#carry(subject, message, inbox);
    });
  }

  #carry(subject: string, message: unknown, inbox: string | undefined): void {
    const startMs = processorMs();
    const bytes = toWire(message);
    const encodeMs = processorMs() - startMs;
    const kind = subject.split('.')[2] ?? subject;
    const listeners = [
      ...(this.#exact.get(subject) ?? []),
      ...(this.#wild.get(subject.slice(0, subject.lastIndexOf('.') + 1)) ?? []),
    ];
    const { messages, encodeMs: before } = this.sent.get(kind) ?? { messages: 0, encodeMs: 0 };
    this.sent.set(kind, { messages: messages + 1, encodeMs: before + encodeMs });
    const reply =
      inbox === undefined ? undefined : (answer: unknown) => this.#carry(inbox, answer, undefined);
    this.#events.at(this.#events.nowMs + this.#delayMs, () => {
      for (const listening of listeners) this.#deliver(kind, bytes, listening, reply);
    });
  }

  #deliver(
    kind: string,
    bytes: Uint8Array,
    { role, listener, isEnded }: Listening,
    reply: ((answer: unknown) => void) | undefined,
  ): void {
    if (isEnded) return;
    const startMs = processorMs();
    const message = fromWire(bytes);
    const decodedMs = processorMs();
    listener(message, reply);
    const endMs = processorMs();
    const counted = this.#of(kind, role);
    counted.deliveries += 1;
    counted.deliveredBytes += bytes.length;
    counted.decodeMs += decodedMs - startMs;
    counted.handleMs += endMs - decodedMs;
  }

  #of(kind: string, role: Role): Traffic {
    const slot = `${kind} ${role}`;
    const known = this.#traffic.get(slot);
    if (known !== undefined) return known;
    const fresh = { kind, role, deliveries: 0, deliveredBytes: 0, decodeMs: 0, handleMs: 0 };
    this.#traffic.set(slot, fresh);
    return fresh;
  }
}
