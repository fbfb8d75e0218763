// Metrics of the tiers below KV memory, by model: what they hold, and what has come up and gone down. Engines count from their start,
// so what one of them had counted when it was lost stays.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import type { TierStats } from '../../engine/tiers/tier-stats.ts';
import { RisenCounts } from './risen-counts.ts';

const TIERS = ['host', 'disk'] as const;

export class TierMetrics {
  readonly #blocks: Gauge<'model' | 'tier'>;
  readonly #bytes: Gauge<'model' | 'tier'>;
  readonly #moved: Counter<'model' | 'tier' | 'event'>;
  readonly #loads: Counter<'model' | 'outcome'>;
  readonly #latest = new Map<string, TierStats>();

  constructor(registry: Registry) {
    const registers = [registry];
    const labelNames = ['model', 'tier'] as ('model' | 'tier')[];
    this.#blocks = new Gauge({
      name: 'chairlift_cache_tier_blocks',
      help: 'KV blocks and states below the memory of engines',
      labelNames,
      registers,
    });
    this.#bytes = new Gauge({
      name: 'chairlift_cache_tier_bytes',
      help: 'Bytes of KV blocks and states below the memory of engines',
      labelNames,
      registers,
    });
    this.#moved = new Counter({
      name: 'chairlift_cache_tier_moved_total',
      help: 'Blocks by what became of them: hit, miss, damaged, written, dropped, evicted',
      labelNames: ['model', 'tier', 'event'],
      registers,
    });
    this.#loads = new Counter({
      name: 'chairlift_cache_loads_total',
      help: 'Sequences whose first blocks came up from a lower tier, and those of which some did not',
      labelNames: ['model', 'outcome'],
      registers,
    });
  }

  /** Of one engine, for as long as it is subscribed to. */
  subscriber(model: string): Pick<EngineSubscriber, 'tiers' | 'lost'> {
    const risen = new RisenCounts();
    return {
      tiers: (stats) => {
        this.#latest.set(model, stats);
        for (const { labels, count } of countsOf(stats)) {
          const more = risen.by(JSON.stringify(labels), count);
          if ('tier' in labels) this.#moved.inc({ model, ...labels }, more);
          else this.#loads.inc({ model, ...labels }, more);
        }
      },
      lost: () => {
        risen.restart();
        this.#latest.delete(model);
      },
    };
  }

  /** Before they are read: models that are not loaded hold nothing. */
  setGauges(loaded: ReadonlySet<string>): void {
    this.#blocks.reset();
    this.#bytes.reset();
    for (const [model, stats] of this.#latest) {
      if (!loaded.has(model)) {
        this.#latest.delete(model);
        continue;
      }
      for (const tier of TIERS) {
        const own = stats[tier];
        if (own === undefined) continue;
        this.#blocks.set({ model, tier }, own.blocks);
        this.#bytes.set({ model, tier }, own.bytes);
      }
    }
  }
}

type Labels = { readonly tier: 'host' | 'disk'; readonly event: string } | { readonly outcome: string };

function countsOf({ host, disk, loads, failedLoads, loading }: TierStats) {
  const counts: { readonly labels: Labels; readonly count: number }[] = [
    { labels: { outcome: 'failed' }, count: failedLoads },
    { labels: { outcome: 'loaded' }, count: loads - failedLoads - loading },
  ];
  const add = (tier: 'host' | 'disk', events: Readonly<Record<string, number>>) => {
    for (const [event, count] of Object.entries(events)) counts.push({ labels: { tier, event }, count });
  };
  if (host !== undefined) add('host', { hit: host.hits, evicted: host.evicted });
  if (disk !== undefined) {
    const { hits: hit, misses: miss, damaged, written, dropped, evicted } = disk;
    add('disk', { hit, miss, damaged, written, dropped, evicted });
  }
  return counts;
}
