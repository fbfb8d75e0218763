// Metrics of vision towers, by model: the images that were computed, found or read from the disk, what waits for them, and what
// their features take. Engines count from their start, so what one of them had counted when it was lost stays.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import { RisenCounts } from './risen-counts.ts';

export class ImageMetrics {
  readonly #images: Counter<'model' | 'event'>;
  readonly #waiting: Gauge<'model'>;
  readonly #bytes: Gauge<'model'>;

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
      images: ({ waiting, bytes, computed, hits: hit, loaded }) => {
        this.#waiting.set({ model }, waiting);
        this.#bytes.set({ model }, bytes);
        for (const [event, count] of Object.entries({ computed, hit, loaded }))
          this.#images.inc({ model, event }, risen.by(event, count));
      },
      lost: () => {
        risen.restart();
        this.#waiting.set({ model }, 0);
        this.#bytes.set({ model }, 0);
      },
    };
  }
}
