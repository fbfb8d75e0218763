// Subscriptions to the engines of a worker's models: begun when a model is loaded, and ended when its engine is another one or gone.

import type { EngineClient } from '../../engine/engine-client.ts';
import type { EngineMonitor, EngineSubscription } from '../../engine/engine-monitor.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';

export interface Subscribed {
  readonly engine: EngineClient;
  readonly subscription: EngineSubscription;
}

/** `subscribe`: what is kept of a model while it is followed. */
export class EngineSubscriptions<Entry extends Subscribed> {
  readonly #pool: ModelPool;
  readonly #subscribe: (model: string, engine: EngineClient, monitor: EngineMonitor) => Entry;
  readonly #followed = new Map<string, Entry>();

  constructor(
    pool: ModelPool,
    subscribe: (model: string, engine: EngineClient, monitor: EngineMonitor) => Entry,
  ) {
    this.#pool = pool;
    this.#subscribe = subscribe;
  }

  get(model: string): Entry | undefined {
    return this.#followed.get(model);
  }

  entries(): IterableIterator<[string, Entry]> {
    return this.#followed.entries();
  }

  refresh(): void {
    const served = this.#pool.loaded();
    const isFollowed = ({ name, engine }: ServedModel) => this.#followed.get(name)?.engine === engine;
    // Several times a second nothing has changed.
    if (served.length === this.#followed.size && served.every(isFollowed)) return;
    const loaded = new Map(served.map(({ name, engine }) => [name, engine]));
    for (const [model, { engine, subscription }] of this.#followed) {
      if (loaded.get(model) === engine) continue;
      subscription.end();
      this.#followed.delete(model);
    }
    for (const [model, engine] of loaded) {
      if (this.#followed.has(model) || engine.monitor === undefined) continue;
      // Engines call back later, when the entry exists.
      this.#followed.set(model, this.#subscribe(model, engine, engine.monitor));
    }
  }

  close(): void {
    for (const { subscription } of this.#followed.values()) subscription.end();
  }
}
