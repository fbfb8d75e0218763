// Models that only workers have which have left: known, and not to be had now. A client is asked to come back for them, since
// a worker that restarts, or is replaced, is back soon.

import type { Membership } from '../membership.ts';
import type { NodeStatus } from '../messages.ts';
import { type FleetModel, fleetModels } from './fleet-models.ts';
import type { PinnedContents } from './model-contents.ts';

/** After this time a model that no worker has does not exist. */
const AWAY_MS = 900_000;

interface Departed {
  readonly status: NodeStatus;
  readonly leftMs: number;
}

export class AwayModels {
  readonly #departed = new Map<string, Departed>();
  readonly #pins: PinnedContents;
  readonly #nowMs: () => number;

  constructor(membership: Pick<Membership, 'onChange'>, pins: PinnedContents, nowMs: () => number) {
    this.#pins = pins;
    this.#nowMs = nowMs;
    membership.onChange((change, status) => {
      // One that is back may not know its models yet: until it does, what it had counts.
      if (change === 'left' && status.models.length > 0) this.#note(status);
    });
  }

  /** Those that no present worker has. */
  models(present: readonly FleetModel[]): FleetModel[] {
    if (this.#departed.size === 0) return [];
    this.#forget();
    const names = new Set(present.map(({ name }) => name));
    const statuses = [...this.#departed.values()].map(({ status }) => status);
    return fleetModels(statuses, this.#pins).filter(({ name }) => !names.has(name));
  }

  #note(status: NodeStatus): void {
    this.#departed.delete(status.node);
    this.#departed.set(status.node, { status, leftMs: this.#nowMs() });
    this.#forget();
  }

  /** They are in the order in which they left. */
  #forget(): void {
    const endMs = this.#nowMs() - AWAY_MS;
    for (const [node, { leftMs }] of this.#departed) {
      if (leftMs > endMs) return;
      this.#departed.delete(node);
    }
  }
}
