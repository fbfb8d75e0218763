// Publishes which prefixes the tiers below its models' memory hold, in numbered batches, and lists them in pieces to gateways that
// ask. What lies in a folder all of its readers know: one that no gateway has asked about it for a while says nothing.

import { KEY_LANES } from '../../engine/cache/prefix-key.ts';
import type { TierName } from '../../engine/scheduler/lower-tiers.ts';
import type { StoredKeys } from '../../engine/tiers/stored-keys.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { Clock, Timer } from '../../runtime/clock.ts';
import type { StoredMessage } from '../messages.ts';
import type { CachePiece } from '../routing/cache-events.ts';
import { MOST_TIER_KEYS } from '../routing/tier-holders.ts';
import { EngineSubscriptions, type Subscribed } from './engine-subscriptions.ts';
import { KeySet } from './key-set.ts';

const FOLLOW_EVERY_MS = 500;
/** Gateways ask again well before that. */
const ASKED_FOR_MS = 60_000;
/** Of one piece of a list. */
const KEYS_A_PIECE = 8192;

interface FollowedTier {
  /** Another one whenever it may have lost what it held. */
  readonly epoch: string;
  number: number;
  readonly keys: KeySet;
  askedMs: number;
}

interface Followed extends Subscribed {
  readonly tiers: Map<TierName, FollowedTier>;
}

interface StoredPublisherOptions {
  readonly node: string;
  readonly start: string;
  readonly pool: ModelPool;
  readonly clock: Clock;
  readonly publish: (message: StoredMessage) => void;
}

export class StoredPublisher {
  readonly #options: StoredPublisherOptions;
  readonly #followed: EngineSubscriptions<Followed>;
  readonly #timer: Timer;
  #epochs = 0;

  constructor(options: StoredPublisherOptions) {
    this.#options = options;
    this.#followed = new EngineSubscriptions(options.pool, (model, engine, monitor) => {
      const tiers = new Map<TierName, FollowedTier>();
      const subscription = monitor.subscribe({ stored: (news) => this.#handle(model, tiers, news) });
      return { engine, subscription, tiers };
    });
    this.#timer = options.clock.every(FOLLOW_EVERY_MS, () => this.#followed.refresh());
  }

  /** `before`: where the last piece said that the rest begins. Throws where the model has no such tier. */
  piece(model: string, tier: TierName, before?: number): CachePiece {
    this.#followed.refresh();
    const followed = this.#followed.get(model)?.tiers.get(tier);
    if (followed === undefined) throw new Error(`nothing is known of what ${model} keeps below its memory`);
    followed.askedMs = this.#options.clock.monotonicMs();
    const { epoch, number } = followed;
    return { epoch, number, ...followed.keys.page(KEYS_A_PIECE, before) };
  }

  close(): void {
    this.#timer.end();
    this.#followed.close();
  }

  #handle(
    model: string,
    tiers: Map<TierName, FollowedTier>,
    { tier, isFirst, entered, left }: StoredKeys,
  ): void {
    const followed = isFirst ? this.#begin(tiers, tier) : tiers.get(tier);
    if (followed === undefined) return;
    const gone = those(left, (high, low) => followed.keys.delete(high, low));
    const come = those(entered, (high, low) => followed.keys.add(high, low));
    followed.number += 1;
    if (tier === 'disk' && this.#options.clock.monotonicMs() - followed.askedMs > ASKED_FOR_MS) return;
    const { epoch, number } = followed;
    const batch = { epoch, number, entered: come, left: gone };
    this.#options.publish({ worker: this.#options.node, stored: { model, tier }, batch });
  }

  #begin(tiers: Map<TierName, FollowedTier>, tier: TierName): FollowedTier {
    this.#epochs += 1;
    const epoch = `${this.#options.start}.${this.#epochs}`;
    const askedMs = tiers.get(tier)?.askedMs ?? Number.NEGATIVE_INFINITY;
    const fresh = { epoch, number: 0, keys: new KeySet(MOST_TIER_KEYS), askedMs };
    tiers.set(tier, fresh);
    return fresh;
  }
}

function those(keys: Int32Array, isNews: (high: number, low: number) => boolean): Int32Array {
  const news: number[] = [];
  for (let at = 0; at < keys.length; at += KEY_LANES) {
    const [high, low] = [keys[at] as number, keys[at + 1] as number];
    if (isNews(high, low)) news.push(high, low);
  }
  return Int32Array.from(news);
}
