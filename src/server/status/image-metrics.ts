// Metrics of vision towers, by model: the images that were computed, found or read from the disk, what waits for them, and what
// their features take. Engines count from their start, so what one of them had counted when it was lost stays.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import type { ImageStats } from '../../engine/images/image-stats.ts';
import { RisenCounts } from './risen-counts.ts';

export class ImageMetrics {
  readonly #images: Counter<'model' | 'event'>;
  readonly #waiting: Gauge<'model'>;
  readonly #bytes: Gauge<'model'>;
  readonly #latest = new Map<string, ImageStats>();

  constructor(registry: Registry) {
    const registers = [registry];
    this.#images = new Counter({
      name: 'chairlift_images_total',
      help: 'Images by what became of them: computed, hit (features in memory or on their way), loaded (from the disk)',
      labelNames: ['model', 'event'],
      registers,
    });
    this.#waiting = new Gauge({
      name: 'chairlift_image_requests_waiting',
      help: 'Requests that wait for their images',
      labelNames: ['model'],
      registers,
    });
    this.#bytes = new Gauge({
      name: 'chairlift_image_features_bytes',
      help: 'Bytes of features of images in the memory of engines',
      labelNames: ['model'],
      registers,
    });
  }

  /** Of one engine, for as long as it is subscribed to. */
  subscriber(model: string): Pick<EngineSubscriber, 'images' | 'lost'> {
    const risen = new RisenCounts();
    return {
      images: (stats) => {
        this.#latest.set(model, stats);
        const { computed, hits: hit, loaded } = stats;
        for (const [event, count] of Object.entries({ computed, hit, loaded }))
          this.#images.inc({ model, event }, risen.by(event, count));
      },
      lost: () => {
        risen.restart();
        this.#latest.delete(model);
      },
    };
  }

  /** Before they are read: models that are not loaded hold nothing. */
  setGauges(loaded: ReadonlySet<string>): void {
    this.#waiting.reset();
    this.#bytes.reset();
    for (const [model, { waiting, bytes }] of this.#latest) {
      if (!loaded.has(model)) {
        this.#latest.delete(model);
        continue;
      }
      this.#waiting.set({ model }, waiting);
      this.#bytes.set({ model }, bytes);
    }
  }
}
