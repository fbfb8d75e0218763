// Has a worker load what the fleet desires of it, and keep it loaded for as long as it does.

import type { ModelLease, ModelPool } from '../../pool/model-pool.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Membership } from '../membership.ts';
import { type Placement, placedOn } from '../placement.ts';

const LOOK_EVERY_MS = 2000;

interface KeepPlacedOptions {
  readonly node: string;
  readonly pool: ModelPool;
  readonly membership: Membership;
  readonly placements: () => Promise<readonly Placement[]>;
  readonly onProblem: (message: string) => void;
}

/** Returns what ends it. */
export function keepPlaced(options: KeepPlacedOptions): () => void {
  const held = new Map<string, ModelLease>();
  let looking = false;
  const timer = setInterval(async () => {
    // A load may take longer than the time to the next look.
    if (looking) return;
    looking = true;
    try {
      await look(options, held);
    } catch (error) {
      options.onProblem(`what the fleet desires cannot be read: ${messageOf(error)}`);
    } finally {
      looking = false;
    }
  }, LOOK_EVERY_MS);
  return () => {
    clearInterval(timer);
    for (const lease of held.values()) lease.release();
    held.clear();
  };
}

async function look(
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
