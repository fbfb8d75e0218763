// Who is there: nodes that were heard of lately. Knows no clock: every call says what time it is.

import { type NodeStatus, PROTOCOL } from './messages.ts';

/** A node that is silent for so long is taken for dead. */
const LEASE_MS = 3000;

/** Hears of nodes that come, of another process by the same name, and of those that go. */
type MemberListener = (change: 'joined' | 'left', status: NodeStatus) => void;

interface Member {
  readonly status: NodeStatus;
  readonly heardMs: number;
}

export class Membership {
  readonly #members = new Map<string, Member>();
  readonly #strangers = new Set<string>();
  readonly #listeners = new Set<MemberListener>();
  readonly #statusListeners = new Set<(status: NodeStatus) => void>();
  readonly #onStranger: (status: NodeStatus) => void;

  /** `onStranger` hears once of each node that speaks otherwise. */
  constructor(onStranger: (status: NodeStatus) => void = () => {}) {
    this.#onStranger = onStranger;
  }

  /** Every status of a member. */
  onStatus(listener: (status: NodeStatus) => void): () => void {
    this.#statusListeners.add(listener);
    return () => this.#statusListeners.delete(listener);
  }

  onChange(listener: MemberListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  hear(status: NodeStatus, nowMs: number): void {
    if (status.protocol !== PROTOCOL) {
      this.#notice(status);
      return;
    }
    const before = this.#members.get(status.node);
    // Of two processes by the same name the newer one counts; late words of the old one would undo that.
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

  /** Lets go of those who were silent for too long. */
  expire(nowMs: number): void {
    for (const { status, heardMs } of [...this.#members.values()]) {
      if (nowMs - heardMs > LEASE_MS) this.#leave(status);
    }
  }

  /** Nobody could be heard for a while: silence says nothing of the others. */
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
    if (this.#strangers.has(status.node)) return;
    this.#strangers.add(status.node);
    this.#onStranger(status);
  }
}
