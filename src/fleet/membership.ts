// The nodes of a fleet whose status arrived lately. Knows no clock: every call passes the time.

import { type NodeStatus, PROTOCOL, type StatusMessage } from './messages.ts';

/** A node that is silent for this long is taken for dead: six statuses of a worker, or summaries of a gateway. */
export const LEASE_MS = 3000;
const GATEWAY_LEASE_MS = 6000;

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
  readonly #refused = new Set<string>();
  readonly #listeners = new Set<MemberListener>();
  readonly #statusListeners = new Set<(status: NodeStatus) => void>();
  readonly #onRefused: (message: StatusMessage) => void;

  /** `onRefused` is called once for each version of a node that speaks another protocol. */
  constructor(onRefused: (message: StatusMessage) => void = () => {}) {
    this.#onRefused = onRefused;
  }

  /** Whether its protocol is ours; of others nothing is read but who they are. */
  understands(message: StatusMessage): boolean {
    if (message.protocol === PROTOCOL) return true;
    const sender = `${message.node} ${message.version}`;
    if (!this.#refused.has(sender)) {
      this.#refused.add(sender);
      this.#onRefused(message);
    }
    return false;
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
    if (!this.understands(status)) return;
    const before = this.#members.get(status.node);
    // Of two processes of the same name the one heard of later counts, however late messages of the other are.
    if (before?.replaced.has(status.start)) return;
    const isSame = before?.status.start === status.start;
    // One that was asked for may come after a later one.
    if (isSame && before !== undefined && status.number < before.status.number) return;
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
    const due = [...this.#members.values()].filter(
      ({ status, heardMs }) => nowMs - heardMs > leaseMs(status),
    );
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
}

function leaseMs({ roles }: NodeStatus): number {
  return roles.includes('worker') ? LEASE_MS : GATEWAY_LEASE_MS;
}
