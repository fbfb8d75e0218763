// Tells gateways which prefixes enter and leave the caches of a worker's models: in numbered batches, several times a second,
// and all of them where somebody has missed one.

import type { PrefixNews } from '../../engine/cache/prefix-journal.ts';
import type { EngineClient } from '../../engine/engine-client.ts';
import type { EngineMonitor, EngineSubscription } from '../../engine/engine-monitor.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { PrefixMessage } from '../messages.ts';
import type { CacheBatch, CacheSnapshot } from '../routing/cache-news.ts';

const TELL_EVERY_MS = 100;
const SNAPSHOT_MS = 3000;

interface Followed {
  readonly engine: EngineClient;
  readonly subscription: EngineSubscription;
  /** Another one whenever the cache may have been lost. */
  epoch: string;
  number: number;
  pending: PrefixNews[];
  readonly waiting: ((snapshot: CacheSnapshot) => void)[];
}

interface PrefixTellerOptions {
  readonly node: string;
  readonly start: string;
  readonly pool: ModelPool;
  readonly tell: (message: PrefixMessage) => void;
}

export class PrefixTeller {
  readonly #options: PrefixTellerOptions;
  readonly #followed = new Map<string, Followed>();
  readonly #timer: NodeJS.Timeout;
  #epochs = 0;

  constructor(options: PrefixTellerOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#tick(), TELL_EVERY_MS);
  }

  /** Rejects where the model is not loaded, or its engine is silent. */
  snapshot(model: string): Promise<CacheSnapshot> {
    this.#look();
    const followed = this.#followed.get(model);
    if (followed === undefined) return Promise.reject(new Error(`${model} is not loaded`));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('the engine is silent')), SNAPSHOT_MS);
      followed.waiting.push((snapshot) => {
        clearTimeout(timer);
        resolve(snapshot);
      });
      followed.subscription.resendPrefixes();
    });
  }

  /** Now, and not only when it is time to: whoever hears of an answer's end may ask about what it left. */
  flush(): void {
    for (const [model, followed] of this.#followed) this.#flush(model, followed);
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { subscription } of this.#followed.values()) subscription.end();
  }

  #tick(): void {
    this.#look();
    this.flush();
  }

  /** Follows the engines that are there now. */
  #look(): void {
    const loaded = new Map(this.#options.pool.loaded().map(({ name, engine }) => [name, engine]));
    for (const [model, { engine, subscription }] of this.#followed) {
      if (loaded.get(model) === engine) continue;
      subscription.end();
      this.#followed.delete(model);
    }
    for (const [model, engine] of loaded) {
      if (!this.#followed.has(model) && engine.monitor !== undefined)
        this.#follow(model, engine, engine.monitor);
    }
  }

  #follow(model: string, engine: EngineClient, monitor: EngineMonitor): void {
    // The engine answers later than this, so that what is filled in last is there by then.
    const subscription = monitor.subscribe({ prefixes: (news) => this.#hear(model, news) });
    this.#followed.set(model, {
      engine,
      subscription,
      epoch: this.#nextEpoch(),
      number: 0,
      pending: [],
      waiting: [],
    });
  }

  #hear(model: string, news: PrefixNews): void {
    const followed = this.#followed.get(model);
    if (followed === undefined) return;
    if (news.kind === 'change') {
      followed.pending.push(news);
      return;
    }
    // What came before it is told before it, so that its number is that of the last batch.
    this.#flush(model, followed);
    if (followed.waiting.length === 0) {
      // Nobody has asked: the engine has begun anew.
      followed.epoch = this.#nextEpoch();
      followed.number = 0;
      this.#send(model, followed, news.keys, new Int32Array(0));
      return;
    }
    const { epoch, number } = followed;
    for (const resolve of followed.waiting.splice(0)) resolve({ epoch, number, keys: news.keys });
  }

  #flush(model: string, followed: Followed): void {
    for (const news of followed.pending.splice(0)) {
      if (news.kind === 'change') this.#send(model, followed, news.entered, news.left);
    }
  }

  #send(model: string, followed: Followed, entered: Int32Array, left: Int32Array): void {
    followed.number += 1;
    const { epoch, number } = followed;
    const batch: CacheBatch = { epoch, number, entered, left };
    this.#options.tell({ worker: this.#options.node, model, batch });
  }

  #nextEpoch(): string {
    this.#epochs += 1;
    return `${this.#options.start}.${this.#epochs}`;
  }
}
