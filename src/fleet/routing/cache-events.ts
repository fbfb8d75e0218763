// Applies what workers publish about their prefix caches to an index: numbered batches, and a snapshot where one was missed.
// Until a snapshot arrives the old entries stay and new batches are kept.

import { KEY_LANES } from '../../engine/cache/prefix-key.ts';
import type { PrefixIndex } from './prefix-index.ts';

/** No key is in both. */
export interface CacheBatch {
  /** Another one for each life of the worker; numbers start again with it. */
  readonly epoch: string;
  readonly number: number;
  readonly entered: Int32Array;
  readonly left: Int32Array;
}

/** All keys of a cache after the batch of this number; 0 before the first. */
export interface CacheSnapshot {
  readonly epoch: string;
  readonly number: number;
  readonly keys: Int32Array;
}

/** A part of them, as of the batch of that number or a later one. */
export interface CachePiece extends CacheSnapshot {
  /** Where the rest begins; absent from the last piece. */
  readonly next?: number | undefined;
}

/**
 * `applied`: now in the index. `repeated`: it was before. `missed`: earlier batches are missing, so ask for a
 * snapshot. `kept`: a snapshot is on its way. `full`: the index has no room for another worker.
 */
export type CacheEventOutcome = 'applied' | 'repeated' | 'missed' | 'kept' | 'full';

/** Where more batches come before the snapshot, another snapshot will be needed. */
const MOST_KEPT = 1024;

/** The number of a worker, whose memory it is; or the name of a tier. */
export type CacheHolder = number | string;

interface Followed {
  part: number;
  /** About as many as are in the index, where there is a limit. */
  keys: number;
  epoch: string;
  number: number;
  /** Set while a snapshot is awaited. */
  kept: CacheBatch[] | undefined;
}

export class CacheEvents {
  readonly #index: PrefixIndex;
  readonly #mostKeys: number;
  readonly #followed = new Map<CacheHolder, Followed>();

  /** `mostKeys`: of one holder; what it has beyond is not known. */
  constructor(index: PrefixIndex, mostKeys = Number.POSITIVE_INFINITY) {
    this.#index = index;
    this.#mostKeys = mostKeys;
  }

  /** Its part of the index. */
  partOf(holder: CacheHolder): number | undefined {
    return this.#followed.get(holder)?.part;
  }

  /** Whether all up to this number is known. */
  isCurrent(holder: CacheHolder, epoch: string, number: number): boolean {
    const known = this.#followed.get(holder);
    return known?.epoch === epoch && known.kept === undefined && known.number >= number;
  }

  apply(worker: CacheHolder, batch: CacheBatch): CacheEventOutcome {
    const known = this.#followed.get(worker);
    if (known === undefined || known.epoch !== batch.epoch) return this.#begin(worker, batch);
    if (batch.number <= known.number) return 'repeated';
    if (known.kept !== undefined) {
      keep(known.kept, batch);
      return 'kept';
    }
    if (batch.number !== known.number + 1) {
      known.kept = [batch];
      return 'missed';
    }
    this.#bringIn(known, batch);
    return 'applied';
  }

  /** Replaces everything known of a worker, then applies the batches that came after the snapshot. */
  replace(worker: CacheHolder, snapshot: CacheSnapshot): CacheEventOutcome {
    const known = this.#followed.get(worker);
    const isSameLife = known?.epoch === snapshot.epoch;
    if (isSameLife && snapshot.number < known.number) return 'repeated';
    if (known !== undefined) this.#index.closePart(known.part);
    const part = this.#openPart(worker);
    if (part === undefined) {
      this.#followed.delete(worker);
      return 'full';
    }
    const { epoch, number, keys } = snapshot;
    const fresh: Followed = { part, keys: 0, epoch, number, kept: undefined };
    this.#followed.set(worker, fresh);
    this.#enterAll(fresh, keys);
    const later = isSameLife ? (known.kept ?? []) : [];
    return later.map((batch) => this.apply(worker, batch)).includes('missed') ? 'missed' : 'applied';
  }

  /** More of what the last snapshot began with. Batches have gone on meanwhile. */
  extend(holder: CacheHolder, { epoch, keys }: CacheSnapshot): CacheEventOutcome {
    const known = this.#followed.get(holder);
    if (known?.epoch !== epoch) return 'missed';
    this.#enterAll(known, keys);
    return 'applied';
  }

  lastNumber(worker: CacheHolder): number | undefined {
    return this.#followed.get(worker)?.number;
  }

  forget(worker: CacheHolder): void {
    const known = this.#followed.get(worker);
    if (known === undefined) return;
    this.#index.closePart(known.part);
    this.#followed.delete(worker);
  }

  /** The first batch of a worker's life. */
  #begin(worker: CacheHolder, batch: CacheBatch): CacheEventOutcome {
    this.forget(worker);
    const part = this.#openPart(worker);
    if (part === undefined) return 'full';
    const fresh: Followed = { part, keys: 0, epoch: batch.epoch, number: 0, kept: undefined };
    this.#followed.set(worker, fresh);
    return this.apply(worker, batch);
  }

  #bringIn(known: Followed, { number, entered, left }: CacheBatch): void {
    for (let i = 0; i < left.length; i += KEY_LANES) {
      this.#index.leave(known.part, left[i] as number, left[i + 1] as number);
    }
    known.keys = Math.max(0, known.keys - left.length / KEY_LANES);
    this.#enterAll(known, entered);
    known.number = number;
  }

  /** Last key first: children follow their parents in a chain and should be evicted before them. */
  #enterAll(known: Followed, keys: Int32Array): void {
    const count = Math.min(keys.length / KEY_LANES, this.#mostKeys - known.keys);
    for (let i = (count - 1) * KEY_LANES; i >= 0; i -= KEY_LANES) {
      this.#index.enter(known.part, keys[i] as number, keys[i + 1] as number);
    }
    known.keys += count;
  }

  /** A walk of the index reports those of workers. */
  #openPart(holder: CacheHolder): number | undefined {
    return this.#index.openPart(typeof holder === 'number' ? holder : undefined);
  }
}

function keep(kept: CacheBatch[], batch: CacheBatch): void {
  kept.push(batch);
  if (kept.length > MOST_KEPT) kept.shift();
}
