// How statuses travel: whole now and then, and as what has changed since the last whole one in between, so that a lost message
// is made up for by the next. Who lacks the whole one asks for it.

import { applied, changeOf } from './changes.ts';
import type { ChangedStatus, NodeStatus, StatusMessage } from './messages.ts';
import { wireBytes } from './wire.ts';

/** Changes add up: after so many of them a whole status is shorter in the long run. */
const MOST_CHANGES = 60;
/** A change that takes this share of the whole is not worth it. */
const LARGEST_CHANGE = 0.5;

export class StatusWriter {
  #whole: NodeStatus | undefined;
  #wholeBytes = 0;
  #changes = 0;

  /** What is to be published so that it is known. */
  next(status: NodeStatus): StatusMessage {
    const whole = this.#whole;
    this.#changes += 1;
    if (whole === undefined || status.leaving === true || this.#changes > MOST_CHANGES)
      return this.#begin(status);
    const { protocol, node, start, version, number, sentMs } = status;
    const change = changeOf(whole, { ...status, number: whole.number, sentMs: whole.sentMs }) as
      | Partial<NodeStatus>
      | undefined;
    const message = { protocol, node, start, version, number, sentMs, since: whole.number, change };
    const isLong = change !== undefined && wireBytes(change) > LARGEST_CHANGE * this.#wholeBytes;
    return isLong ? this.#begin(status) : message;
  }

  /** The last whole one, which changes are from. */
  get whole(): NodeStatus | undefined {
    return this.#whole;
  }

  /** Others may have missed what was published. */
  forget(): void {
    this.#whole = undefined;
  }

  #begin(status: NodeStatus): NodeStatus {
    this.#whole = status;
    this.#wholeBytes = wireBytes(status);
    this.#changes = 0;
    return status;
  }
}

interface Known {
  whole: NodeStatus | undefined;
  /** The last change from one that is not known. */
  pending: ChangedStatus | undefined;
}

export class StatusReader {
  readonly #known = new Map<string, Known>();

  /** Undefined where the whole status is missing that this one is a change of. */
  read(message: StatusMessage): NodeStatus | undefined {
    if (!('since' in message)) {
      this.#known.set(message.node, { whole: message, pending: undefined });
      return message;
    }
    const known = this.#known.get(message.node);
    if (known?.whole?.start === message.start && known.whole.number === message.since)
      return changed(known.whole, message);
    this.#known.set(message.node, { whole: known?.whole, pending: message });
    return undefined;
  }

  /** A whole status that was asked for, with the change that came meanwhile. */
  readWhole(whole: NodeStatus): NodeStatus {
    const pending = this.#known.get(whole.node)?.pending;
    this.#known.set(whole.node, { whole, pending: undefined });
    const isOfIt = pending?.start === whole.start && pending.since === whole.number;
    return isOfIt ? changed(whole, pending) : whole;
  }

  forget(node: string): void {
    this.#known.delete(node);
  }
}

function changed(whole: NodeStatus, { number, sentMs, change }: ChangedStatus): NodeStatus {
  return { ...(applied(whole, change) as NodeStatus), number, sentMs };
}
