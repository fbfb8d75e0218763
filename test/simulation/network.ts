// The message system of a simulated fleet, with the faults that NATS has: messages that are lost, late, doubled or in another
// order, links that are cut in one direction or both, listeners that are too slow, subscriptions that are refused.

import type { Bus, BusListener, BusState } from '../../src/fleet/bus.ts';
import type { AnswerUpdate } from '../../src/fleet/messages.ts';
import { fromWire, toWire } from '../../src/fleet/wire.ts';
import type { Chance } from '../chaos/chance.ts';
import type { SimulatedProcess } from './process.ts';
import type { VirtualTime } from './virtual-time.ts';

/** A client notices a dead link after so many unanswered pings. */
const NOTICE_MS = [4000, 6000] as const;
const RECONNECT_MS = [20, 300] as const;
const HOP_US = [200, 900] as const;

export type Direction = 'up' | 'down' | 'both';

interface Subscription {
  readonly bus: SimulatedBus;
  readonly subject: string;
  readonly listener: BusListener;
  readonly onRefused: () => void;
}

interface Carried {
  readonly subject: string;
  readonly message: unknown;
  readonly hash: number;
  readonly reply: ((answer: unknown) => void) | undefined;
}

/** What happens to messages now: shares from 0 to 1. */
interface Weather {
  loss: number;
  doubles: number;
  disorderMs: number;
  /** Messages that are lost the first time, and not when they are sent again. */
  losesSubmits: boolean;
  losesEnds: boolean;
}

export class SimulatedNetwork {
  readonly weather: Weather = {
    loss: 0,
    doubles: 0,
    disorderMs: 0,
    losesSubmits: false,
    losesEnds: false,
  };
  /** By node: how much later messages reach it. */
  readonly slow = new Map<string, number>();
  /** Nodes that may not subscribe to their work. */
  readonly refused = new Set<string>();
  readonly cuts = new Map<string, Direction>();
  isDown = false;
  messages = 0;
  onMessage: (subject: string, message: unknown) => void = () => {};
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly #bySubject = new Map<string, Set<Subscription>>();
  readonly #wild: Subscription[] = [];
  readonly #links = new Set<SimulatedBus>();
  readonly #lastMs = new Map<string, number>();
  readonly #lostOnce = new Set<string>();

  constructor(time: VirtualTime, chance: Chance) {
    this.time = time;
    this.chance = chance;
  }

  connect(process: SimulatedProcess, node: string): Bus {
    const bus = new SimulatedBus(this, process, node);
    this.#links.add(bus);
    process.onDeath(() => this.leave(bus));
    if (!this.reaches(node, 'both')) bus.become('cut-off');
    return bus;
  }

  leave(bus: SimulatedBus): void {
    this.#links.delete(bus);
    for (const all of this.#bySubject.values())
      for (const one of all) if (one.bus === bus) this.unsubscribe(one);
    for (const one of [...this.#wild]) if (one.bus === bus) this.unsubscribe(one);
  }

  reaches(node: string, direction: Direction): boolean {
    const cut = this.cuts.get(node);
    return (
      !this.isDown && (cut === undefined || (cut !== 'both' && direction !== 'both' && cut !== direction))
    );
  }

  cut(node: string, direction: Direction): void {
    this.cuts.set(node, direction);
    for (const bus of this.#linksOf(node)) this.#noticeCut(bus);
  }

  mend(node: string): void {
    this.cuts.delete(node);
    for (const bus of this.#linksOf(node)) this.#noticeMend(bus);
  }

  reconnect(node: string): void {
    for (const bus of this.#linksOf(node)) {
      bus.process.run(() => bus.become('cut-off'));
      this.#noticeMend(bus);
    }
  }

  /** All servers are gone, or back: connections break at once. */
  fall(): void {
    this.isDown = true;
    for (const bus of this.#links) bus.process.run(() => bus.become('cut-off'));
  }

  rise(): void {
    this.isDown = false;
    for (const bus of this.#links) this.#noticeMend(bus);
  }

  subscribe(subscription: Subscription): void {
    const { subject, bus } = subscription;
    if (this.refused.has(bus.node) && subject.includes('.work.')) {
      bus.refused.add(subscription);
      bus.process.run(subscription.onRefused, this.#hopMs());
      return;
    }
    if (subject.endsWith('*')) {
      this.#wild.push(subscription);
      return;
    }
    const all = this.#bySubject.get(subject) ?? new Set();
    this.#bySubject.set(subject, all);
    all.add(subscription);
  }

  unsubscribe(subscription: Subscription): void {
    subscription.bus.refused.delete(subscription);
    this.#bySubject.get(subscription.subject)?.delete(subscription);
    const at = this.#wild.indexOf(subscription);
    if (at >= 0) this.#wild.splice(at, 1);
  }

  /** Whether anybody listens; those that do need not be reached. */
  carry(from: SimulatedBus, subject: string, message: unknown, reply?: (answer: unknown) => void): boolean {
    const bytes = toWire(message);
    const carried = { subject, message: fromWire(bytes), hash: hashOf(bytes), reply };
    this.messages++;
    this.onMessage(subject, carried.message);
    if (this.#isLostOnce(carried.message)) return true;
    const isSent = () => {
      const to = this.#listeners(subject);
      for (const one of to) this.#send(from, one, carried);
      return to.length > 0;
    };
    if (this.reaches(from.node, 'up')) return isSent();
    // In the buffers of its machine, until the link is given up.
    from.unsent.push(isSent);
    return true;
  }

  send(from: SimulatedBus, to: SimulatedProcess, hash: number, hear: () => void): void {
    const { chance, weather, time } = this;
    if (weather.loss > 0 && chance.happens(weather.loss)) return;
    const copies = weather.doubles > 0 && chance.happens(weather.doubles) ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      const pair = `${from.process.name} ${to.name}`;
      const laterMs = (this.slow.get(to.machine.name) ?? 0) * (1 + chance.below(100) / 100);
      const hopMs = this.#hopMs() + laterMs;
      const disorderMs = weather.disorderMs === 0 ? 0 : chance.below(weather.disorderMs);
      const inOrderMs = Math.max(time.nowMs + hopMs, (this.#lastMs.get(pair) ?? 0) + 0.001);
      const atMs = disorderMs === 0 ? inOrderMs : time.nowMs + hopMs + disorderMs;
      this.#lastMs.set(pair, Math.max(inOrderMs, atMs));
      time.at(atMs, to, () => {
        time.trace(hash ^ Math.round(time.nowMs * 1000));
        hear();
      });
    }
  }

  #isLostOnce(message: unknown): boolean {
    const { losesSubmits, losesEnds } = this.weather;
    if (!losesSubmits && !losesEnds) return false;
    const {
      kind,
      id,
      attempt,
      news = [],
    } = message as {
      readonly kind?: string;
      readonly id?: string;
      readonly attempt?: number;
      readonly news?: readonly AnswerUpdate[];
    };
    const names = losesSubmits && kind === 'submit' ? [`submit ${id} ${attempt}`] : [];
    if (losesEnds && kind === 'news')
      for (const one of news) if (one.finish !== undefined) names.push(`end ${one.id} ${one.attempt}`);
    const isNew = names.some((name) => !this.#lostOnce.has(name));
    for (const name of names) this.#lostOnce.add(name);
    return isNew;
  }

  #send(from: SimulatedBus, { bus, listener, subject }: Subscription, carried: Carried): void {
    const { message, reply, hash } = carried;
    const hear = () => {
      if (!this.#linkIs(bus)) return;
      if (!this.reaches(bus.node, 'down')) {
        bus.unheard.push(hear);
        return;
      }
      if (bus.state !== 'connected') return;
      bus.hears(subject, () =>
        listener(message, reply && ((answer) => this.#answer(bus, from, answer, reply))),
      );
    };
    this.send(from, bus.process, hash, hear);
  }

  #answer(from: SimulatedBus, to: SimulatedBus, answer: unknown, reply: (answer: unknown) => void): void {
    if (from.state !== 'connected') return;
    const bytes = toWire(answer);
    const hear = () => {
      if (!this.reaches(to.node, 'down')) to.unheard.push(hear);
      else if (to.state === 'connected') reply(fromWire(bytes));
    };
    const sent = () => this.send(from, to.process, hashOf(bytes), hear);
    if (this.reaches(from.node, 'up')) sent();
    else from.unsent.push(sent);
  }

  /** Since when a node knows that it cannot reach the others. */
  lostMs(node: string): number | undefined {
    return this.#linksOf(node).at(-1)?.lostMs;
  }

  #linkIs(bus: SimulatedBus): boolean {
    return this.#links.has(bus);
  }

  #listeners(subject: string): Subscription[] {
    const wild = this.#wild.filter((one) => subject.startsWith(one.subject.slice(0, -1)));
    return [...(this.#bySubject.get(subject) ?? []), ...wild];
  }

  #noticeCut(bus: SimulatedBus): void {
    const since = this.cuts.get(bus.node);
    this.time.after(this.chance.between(...NOTICE_MS), bus.process, () => {
      if (this.cuts.get(bus.node) === since && since !== undefined) bus.become('cut-off');
    });
  }

  #noticeMend(bus: SimulatedBus): void {
    this.time.after(this.chance.between(...RECONNECT_MS), bus.process, () => {
      if (!this.reaches(bus.node, 'both')) return;
      if (bus.state === 'connected') bus.sendOn();
      else bus.become('connected');
    });
  }

  #linksOf(node: string): SimulatedBus[] {
    return [...this.#links].filter((bus) => bus.node === node);
  }

  #hopMs(): number {
    return this.chance.between(...HOP_US) / 1000;
  }
}

class SimulatedBus implements Bus {
  state: BusState = 'connected';
  readonly node: string;
  readonly process: SimulatedProcess;
  readonly refused = new Set<Subscription>();
  /** On their way out, and in, while the link is cut and nobody has noticed. */
  unsent: (() => void)[] = [];
  unheard: (() => void)[] = [];
  lostMs: number | undefined;
  readonly #network: SimulatedNetwork;
  readonly #listeners = new Set<(state: BusState) => void>();

  constructor(network: SimulatedNetwork, process: SimulatedProcess, node: string) {
    this.#network = network;
    this.process = process;
    this.node = node;
  }

  publish(subject: string, message: unknown): void {
    if (this.state === 'connected') this.#network.carry(this, subject, message);
  }

  request(subject: string, message: unknown, timeoutMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`no answer on ${subject} within ${timeoutMs} ms`));
      const timer = this.process.clock.after(timeoutMs, late);
      const reply = (answer: unknown) => {
        timer.end();
        resolve(answer);
      };
      if (this.state !== 'connected') return;
      if (this.#network.carry(this, subject, message, reply)) return;
      timer.end();
      this.process.clock.after(1, () => reject(new Error(`nobody listens on ${subject}`)));
    });
  }

  subscribe(subject: string, listener: BusListener, onRefused: () => void = () => {}): () => void {
    const subscription = { bus: this, subject, listener, onRefused };
    this.#network.subscribe(subscription);
    return () => this.#network.unsubscribe(subscription);
  }

  onState(listener: (state: BusState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#network.leave(this);
    this.become('closed');
  }

  hears(_subject: string, hear: () => void): void {
    hear();
  }

  become(state: BusState): void {
    if (state === this.state || this.state === 'closed') return;
    this.state = state;
    this.lostMs = state === 'connected' ? undefined : (this.lostMs ?? this.#network.time.nowMs);
    if (state !== 'connected') {
      this.unsent = [];
      this.unheard = [];
    } else {
      for (const subscription of [...this.refused]) {
        this.refused.delete(subscription);
        this.#network.subscribe(subscription);
      }
    }
    for (const listener of this.#listeners) listener(state);
  }

  /** A cut that nobody noticed only made things late. */
  sendOn(): void {
    for (const send of this.unsent.splice(0)) send();
    for (const hear of this.unheard.splice(0)) hear();
  }
}

function hashOf(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < bytes.length; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193);
  return hash;
}
