import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import type { ImageStats } from '../../engine/images/image-stats.ts';
import { ImageMetrics } from './image-metrics.ts';

const stats = (change: Partial<ImageStats>): ImageStats => ({
  waiting: 0,
  busy: false,
  computed: 0,
  hits: 0,
  loaded: 0,
  pieces: 0,
  kept: 0,
  bytes: 0,
  usedBytes: 0,
  limitBytes: 1000,
  ...change,
});

it('images of an engine that was lost stay counted, and what waited there does not', async () => {
  const registry = new Registry();
  const metrics = new ImageMetrics(registry);
  const subscriber = metrics.subscriber('m');
  const loaded = new Set(['m']);
  subscriber.images?.(stats({ computed: 3, hits: 1, waiting: 2, bytes: 300 }));
  subscriber.images?.(stats({ computed: 4, hits: 1, waiting: 2, bytes: 400 }));
  metrics.setGauges(loaded);
  expect(await registry.metrics()).toContain('chairlift_image_requests_waiting{model="m"} 2');
  subscriber.lost?.(true);
  metrics.setGauges(loaded);
  const lost = await registry.metrics();
  expect(lost).not.toContain('chairlift_image_requests_waiting{');
  expect(lost).not.toContain('chairlift_image_features_bytes{');
  subscriber.images?.(stats({ computed: 1, loaded: 2, bytes: 100 }));
  metrics.setGauges(loaded);
  const text = await registry.metrics();
  for (const line of [
    'chairlift_images_total{model="m",event="computed"} 5',
    'chairlift_images_total{model="m",event="hit"} 1',
    'chairlift_images_total{model="m",event="loaded"} 2',
    'chairlift_image_features_bytes{model="m"} 100',
  ])
    expect(text).toContain(line);
});
