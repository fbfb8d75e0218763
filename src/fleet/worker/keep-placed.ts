// Loads the models that gateways place on this worker, and keeps them loaded while one of them does.

import type { ModelLease, ModelPool } from '../../pool/model-pool.ts';
import type { Clock } from '../../runtime/clock.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Membership } from '../membership.ts';

const POLL_INTERVAL_MS = 1000;

interface KeepPlacedOptions {
  readonly node: string;
  readonly clock: Clock;
  readonly pool: ModelPool;
  readonly membership: Membership;
  readonly onProblem: (message: string) => void;
}

export function keepPlaced(options: KeepPlacedOptions): () => void {
  const held = new Map<string, ModelLease>();
  let isLoading = false;
  const timer = options.clock.every(POLL_INTERVAL_MS, async () => {
    // A load may take longer than the poll interval.
    if (isLoading) return;
    isLoading = true;
    try {
      await poll(options, held);
    } catch (error) {
      options.onProblem(`what is placed here cannot be loaded: ${messageOf(error)}`);
    } finally {
      isLoading = false;
    }
  });
  return () => {
    timer.end();
    for (const lease of held.values()) lease.release();
    held.clear();
  };
}

async function poll(
  { node, pool, membership, onProblem }: KeepPlacedOptions,
  held: Map<string, ModelLease>,
): Promise<void> {
  const placements = membership.gateways().flatMap(({ placed }) => (placed === undefined ? [] : [placed]));
  // Where no gateway says anything, nothing has changed.
  if (placements.length === 0) return;
  const own = new Set(
    placements
      .flatMap((placed) => Object.entries(placed))
      .filter(([, nodes]) => nodes.includes(node))
      .map(([model]) => model),
  );
  for (const [model, lease] of held) {
    if (own.has(model)) continue;
    lease.release();
    held.delete(model);
  }
  for (const model of own) {
    if (held.has(model)) continue;
    const acquired = await pool.acquire(model, { atOnce: true });
    if (acquired.ok) held.set(model, acquired.lease);
    else onProblem(`${model} should be loaded here: ${acquired.message}`);
  }
}
