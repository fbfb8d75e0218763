// Publishes which prefixes enter and leave the caches of a worker's models: in numbered batches several times a second, and as a
// snapshot where a gateway has missed one.

import { type PrefixEvents, settled } from '../../engine/cache/prefix-events.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { Clock, Timer } from '../../runtime/clock.ts';
import type { PrefixMessage } from '../messages.ts';
import type { CacheBatch, CacheSnapshot } from '../routing/cache-events.ts';
import { EngineSubscriptions, type Subscribed } from './engine-subscriptions.ts';

const PUBLISH_EVERY_MS = 100;
const SNAPSHOT_MS = 3000;

interface Followed extends Subscribed {
  /** Another one whenever the cache may have been lost. */
  epoch: string;
  number: number;
  pending: Extract<PrefixEvents, { kind: 'change' }>[];
  readonly waiting: ((snapshot: CacheSnapshot) => void)[];
}

interface PrefixPublisherOptions {
  readonly node: string;
  readonly start: string;
  readonly pool: ModelPool;
  readonly clock: Clock;
  readonly publish: (message: PrefixMessage) => void;
}

export class PrefixPublisher {
  readonly #options: PrefixPublisherOptions;
  readonly #followed: EngineSubscriptions<Followed>;
  readonly #timer: Timer;
  #epochs = 0;

  constructor(options: PrefixPublisherOptions) {
    this.#options = options;
    this.#followed = new EngineSubscriptions(options.pool, (model, engine, monitor) => {
      const subscription = monitor.subscribe({ prefixes: (news) => this.#handle(model, news) });
      return { engine, subscription, epoch: this.#nextEpoch(), number: 0, pending: [], waiting: [] };
    });
    this.#timer = options.clock.every(PUBLISH_EVERY_MS, () => this.#tick());
  }

  /** Rejects where the model is not loaded, or its engine is silent. */
  snapshot(model: string): Promise<CacheSnapshot> {
    this.#followed.refresh();
    const followed = this.#followed.get(model);
    if (followed === undefined) return Promise.reject(new Error(`${model} is not loaded`));
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error('the engine is silent'));
      const timer = this.#options.clock.after(SNAPSHOT_MS, late);
      followed.waiting.push((snapshot) => {
        timer.end();
        resolve(snapshot);
      });
      followed.subscription.resendPrefixes();
    });
  }

  /** At once: a gateway that gets an answer's end may ask about the prefixes it left. */
  flush(): void {
    for (const [model, followed] of this.#followed.entries()) this.#flush(model, followed);
  }

  close(): void {
    this.#timer.end();
    this.#followed.close();
  }

  #tick(): void {
    this.#followed.refresh();
    this.flush();
  }

  #handle(model: string, news: PrefixEvents): void {
    const followed = this.#followed.get(model);
    if (followed === undefined) return;
    if (news.kind === 'change') {
      followed.pending.push(news);
      return;
    }
    // Earlier changes go first, so that the snapshot's number is that of the last batch.
    this.#flush(model, followed);
    if (followed.waiting.length === 0) {
      // No gateway asked: the engine has restarted.
      followed.epoch = this.#nextEpoch();
      followed.number = 0;
      this.#send(model, followed, news.keys, new Int32Array(0));
      return;
    }
    const { epoch, number } = followed;
    for (const resolve of followed.waiting.splice(0)) resolve({ epoch, number, keys: news.keys });
  }

  #flush(model: string, followed: Followed): void {
    const changes = followed.pending.splice(0);
    if (changes.length === 0) return;
    const all = (of: 'entered' | 'left') => changes.flatMap((change) => [...change[of]]);
    // Each step has news of its own: one message has those of all.
    this.#send(model, followed, ...settled(all('entered'), all('left')));
  }

  #send(model: string, followed: Followed, entered: Int32Array, left: Int32Array): void {
    followed.number += 1;
    const { epoch, number } = followed;
    const batch: CacheBatch = { epoch, number, entered, left };
    this.#options.publish({ worker: this.#options.node, model, batch });
  }

  #nextEpoch(): string {
    this.#epochs += 1;
    return `${this.#options.start}.${this.#epochs}`;
  }
}
