// Loads the models that are placed on this worker, and keeps them loaded while they are.

import type { ModelLease, ModelPool } from '../../pool/model-pool.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Membership } from '../membership.ts';
import { type Placement, placedOn } from '../placement.ts';

const POLL_INTERVAL_MS = 2000;

interface KeepPlacedOptions {
  readonly node: string;
  readonly pool: ModelPool;
  readonly membership: Membership;
  readonly placements: () => Promise<readonly Placement[]>;
  readonly onProblem: (message: string) => void;
}

export function keepPlaced(options: KeepPlacedOptions): () => void {
  const held = new Map<string, ModelLease>();
  let polling = false;
  const timer = setInterval(async () => {
    // A load may take longer than the poll interval.
    if (polling) return;
    polling = true;
    try {
      await poll(options, held);
    } catch (error) {
      options.onProblem(`what the fleet desires cannot be read: ${messageOf(error)}`);
    } finally {
      polling = false;
    }
  }, POLL_INTERVAL_MS);
  return () => {
    clearInterval(timer);
    for (const lease of held.values()) lease.release();
    held.clear();
  };
}

async function poll(
  { node, pool, membership, placements, onProblem }: KeepPlacedOptions,
  held: Map<string, ModelLease>,
): Promise<void> {
  const workers = membership.workers();
  const own = (await placements())
    .filter((one) => placedOn(one, workers).includes(node))
    .map(({ model }) => model);
  for (const [model, lease] of held) {
    if (own.includes(model)) continue;
    lease.release();
    held.delete(model);
  }
  for (const model of own.filter((name) => !held.has(name))) {
    const acquired = await pool.acquire(model, { atOnce: true });
    if (acquired.ok) held.set(model, acquired.lease);
    else onProblem(`${model} should be loaded here: ${acquired.message}`);
  }
}
