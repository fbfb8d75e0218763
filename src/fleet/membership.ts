// The nodes of a fleet whose status arrived lately. Knows no clock: every call passes the time.

import { type NodeStatus, PROTOCOL } from './messages.ts';

/** A node that is silent for this long is taken for dead. */
const LEASE_MS = 3000;

/** Called for nodes that join or leave; another process of the same name does both. */
type MemberListener = (change: 'joined' | 'left', status: NodeStatus) => void;

interface Member {
  readonly status: NodeStatus;
  readonly heardMs: number;
  /** Starts of earlier processes of its name: messages of theirs may still come. */
  readonly replaced: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();

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
    // Of two processes of the same name the one heard of later counts, however late messages of the other are.
    if (before?.replaced.has(status.start)) return;
    const isSame = before?.status.start === status.start;
    if (status.leaving === true) {
      // With what it had: a node that leaves may have nothing any more.
      if (before !== undefined && isSame) this.#leave(before.status);
      return;
    }
    let replaced = before?.replaced ?? none;
    if (before !== undefined && !isSame) {
      replaced = new Set([...replaced, before.status.start]);
      this.#leave(before.status);
    }
    this.#members.set(status.node, { status, heardMs: nowMs, replaced });
    for (const listener of this.#statusListeners) listener(status);
    if (!isSame) for (const listener of this.#listeners) listener('joined', status);
  }

  /** All that are due leave before anyone is told, so that nothing is given to one that is leaving, too. */
  expire(nowMs: number): void {
    const due = [...this.#members.values()].filter(({ heardMs }) => nowMs - heardMs > LEASE_MS);
    for (const { status } of due) this.#members.delete(status.node);
    for (const { status } of due) this.#leave(status);
  }

  /** After a lost connection silence says nothing about the others. */
  excuse(nowMs: number): void {
    for (const [node, member] of this.#members) this.#members.set(node, { ...member, heardMs: nowMs });
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
