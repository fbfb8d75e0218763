import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import type { TierStats } from '../../engine/tiers/tier-stats.ts';
import { TierMetrics } from './tier-metrics.ts';

const stats = (change: Partial<TierStats>): TierStats => ({
  loading: 0,
  loads: 0,
  failedLoads: 0,
  loadedBlocks: 0,
  diskBlocks: 0,
  unsaved: 0,
  ...change,
});

const host = { blocks: 3, bytes: 300, limitBytes: 1000, hits: 5, evicted: 2 };

it('counts of an engine that was lost stay, and those of the next are added', async () => {
  const registry = new Registry();
  const metrics = new TierMetrics(registry);
  const subscriber = metrics.subscriber('m');
  subscriber.tiers?.(stats({ host, loads: 4, failedLoads: 1, loading: 1 }));
  subscriber.tiers?.(stats({ host: { ...host, hits: 7, blocks: 4 }, loads: 4, failedLoads: 1 }));
  subscriber.lost?.(true);
  subscriber.tiers?.(stats({ host: { ...host, hits: 1, evicted: 0, blocks: 1 }, loads: 1 }));
  metrics.setGauges(new Set(['m']));
  const text = await registry.metrics();
  for (const line of [
    'chairlift_cache_tier_blocks{model="m",tier="host"} 1',
    'chairlift_cache_tier_bytes{model="m",tier="host"} 300',
    'chairlift_cache_tier_moved_total{model="m",tier="host",event="hit"} 8',
    'chairlift_cache_tier_moved_total{model="m",tier="host",event="evicted"} 2',
    'chairlift_cache_loads_total{model="m",outcome="loaded"} 4',
    'chairlift_cache_loads_total{model="m",outcome="failed"} 1',
  ])
    expect(text).toContain(line);
  expect(text).not.toContain('tier="disk"');
});

it('a model that was unloaded holds nothing in the tiers', async () => {
  const registry = new Registry();
  const metrics = new TierMetrics(registry);
  metrics.subscriber('m').tiers?.(stats({ host }));
  metrics.setGauges(new Set(['m']));
  expect(await registry.metrics()).toContain('chairlift_cache_tier_bytes{model="m",tier="host"} 300');
  metrics.setGauges(new Set());
  const text = await registry.metrics();
  expect(text).not.toContain('chairlift_cache_tier_bytes{');
  expect(text).toContain('chairlift_cache_tier_moved_total{model="m",tier="host",event="hit"} 5');
});
