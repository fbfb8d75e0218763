// The nodes of a fleet whose status arrived lately. Knows no clock: every call passes the time.

import { type NodeStatus, PROTOCOL } from './messages.ts';

/** A node that is silent for this long is taken for dead. */
const LEASE_MS = 3000;

/** Called for nodes that join or leave; another process of the same name does both. */
type MemberListener = (change: 'joined' | 'left', status: NodeStatus) => void;

interface Member {
  readonly status: NodeStatus;
  readonly heardMs: number;
}

export class Membership {
  readonly #members = new Map<string, Member>();
  readonly #unknown = new Set<string>();
  readonly #listeners = new Set<MemberListener>();
  readonly #statusListeners = new Set<(status: NodeStatus) => void>();
  readonly #onUnknown: (status: NodeStatus) => void;

  /** `onUnknown` is called once for each node of another protocol version. */
  constructor(onUnknown: (status: NodeStatus) => void = () => {}) {
    this.#onUnknown = onUnknown;
  }

  onStatus(listener: (status: NodeStatus) => void): () => void {
    this.#statusListeners.add(listener);
    return () => this.#statusListeners.delete(listener);
  }

  onChange(listener: MemberListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  handle(status: NodeStatus, nowMs: number): void {
    if (status.protocol !== PROTOCOL) {
      this.#notice(status);
      return;
    }
    const before = this.#members.get(status.node);
    // Of two processes of the same name the newer one counts, however late messages of the old one are.
    if (before !== undefined && before.status.start > status.start) return;
    if (status.leaving === true) {
      if (before !== undefined) this.#leave(before.status);
      return;
    }
    if (before !== undefined && before.status.start !== status.start) this.#leave(before.status);
    const isNew = !this.#members.has(status.node);
    this.#members.set(status.node, { status, heardMs: nowMs });
    for (const listener of this.#statusListeners) listener(status);
    if (isNew) for (const listener of this.#listeners) listener('joined', status);
  }

  /** All that are due leave before anyone is told, so that nothing is given to one that is leaving, too. */
  expire(nowMs: number): void {
    const due = [...this.#members.values()].filter(({ heardMs }) => nowMs - heardMs > LEASE_MS);
    for (const { status } of due) this.#members.delete(status.node);
    for (const { status } of due) this.#leave(status);
  }

  /** After a lost connection silence says nothing about the others. */
  excuse(nowMs: number): void {
    for (const [node, { status }] of this.#members) this.#members.set(node, { status, heardMs: nowMs });
  }

  get(node: string): NodeStatus | undefined {
    return this.#members.get(node)?.status;
  }

  all(): NodeStatus[] {
    return [...this.#members.values()].map(({ status }) => status);
  }

  workers(): NodeStatus[] {
    return this.all().filter(({ roles }) => roles.includes('worker'));
  }

  gateways(): NodeStatus[] {
    return this.all().filter(({ roles }) => roles.includes('gateway'));
  }

  #leave(status: NodeStatus): void {
    this.#members.delete(status.node);
    for (const listener of this.#listeners) listener('left', status);
  }

  #notice(status: NodeStatus): void {
    if (this.#unknown.has(status.node)) return;
    this.#unknown.add(status.node);
    this.#onUnknown(status);
  }
}
