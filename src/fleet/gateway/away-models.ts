// Models that only workers have which have left: known, and not to be had now. A client is asked to come back for them, since
// a worker that restarts, or is replaced, is back soon.

import type { Membership } from '../membership.ts';
import type { NodeStatus } from '../messages.ts';
import type { PinnedContents } from './model-contents.ts';
import type { ModelReplicas } from './model-replicas.ts';
import { ModelTable } from './model-table.ts';

/** After this time a model that no worker has does not exist. */
const AWAY_MS = 900_000;

export class AwayModels {
  /** When each node left, in that order. */
  readonly #leftMs = new Map<string, number>();
  readonly #departed: ModelTable;
  readonly #nowMs: () => number;

  constructor(membership: Pick<Membership, 'onChange'>, pins: PinnedContents, nowMs: () => number) {
    this.#departed = new ModelTable(pins);
    this.#nowMs = nowMs;
    membership.onChange((change, status) => {
      // One that is back may not know its models yet: until it does, what it had counts.
      if (change === 'left' && status.models.length > 0) this.#note(status);
    });
  }

  /** Those that no present worker has. */
  models(present: ModelTable): readonly ModelReplicas[] {
    this.#forget();
    return this.#departed.models.filter(({ name }) => present.find(name)?.name !== name);
  }

  #note(status: NodeStatus): void {
    this.#leftMs.delete(status.node);
    this.#leftMs.set(status.node, this.#nowMs());
    this.#departed.set(status);
    this.#forget();
  }

  #forget(): void {
    const endMs = this.#nowMs() - AWAY_MS;
    for (const [node, leftMs] of this.#leftMs) {
      if (leftMs > endMs) return;
      this.#leftMs.delete(node);
      this.#departed.delete(node);
    }
  }
}
