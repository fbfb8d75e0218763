// What workers tell about their prefix caches, brought into an index: batches with a running number, and snapshots where one
// was missed. While a snapshot is on its way the old knowledge stays, and batches that come meanwhile are kept.

import { KEY_LANES } from '../../engine/cache/prefix-key.ts';
import type { PrefixIndex } from './prefix-index.ts';

/** Keys that entered and left a worker's cache since its last batch. No key is in both. */
export interface CacheBatch {
  /** Of the worker's life: numbers begin anew with each. */
  readonly epoch: string;
  /** 1, 2, 3, ... */
  readonly number: number;
  readonly entered: Int32Array;
  readonly left: Int32Array;
}

/** All keys of a cache after the batch with this number; 0 before the first. */
export interface CacheSnapshot {
  readonly epoch: string;
  readonly number: number;
  readonly keys: Int32Array;
}

/**
 * `applied`: the index knows it. `repeated`: it did before. `missed`: batches before it are missing, so a snapshot must be
 * asked for. `kept`: one has been asked for already. `full`: the index has no room for another worker.
 */
export type NewsOutcome = 'applied' | 'repeated' | 'missed' | 'kept' | 'full';

/** Batches that are kept while a snapshot is on its way; where there are more, another one will be needed. */
const MOST_KEPT = 1024;

interface Followed {
  part: number;
  epoch: string;
  number: number;
  /** Undefined unless a snapshot is awaited. */
  kept: CacheBatch[] | undefined;
}

export class CacheNews {
  readonly #index: PrefixIndex;
  readonly #followed = new Map<number, Followed>();

  constructor(index: PrefixIndex) {
    this.#index = index;
  }

  apply(worker: number, batch: CacheBatch): NewsOutcome {
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

  /** Replaces all that is known of a worker, and goes on with the batches that came after the snapshot was made. */
  replace(worker: number, snapshot: CacheSnapshot): NewsOutcome {
    const known = this.#followed.get(worker);
    const isSameLife = known?.epoch === snapshot.epoch;
    if (isSameLife && snapshot.number < known.number) return 'repeated';
    if (known !== undefined) this.#index.closePart(known.part);
    const part = this.#index.openPart(worker);
    if (part === undefined) {
      this.#followed.delete(worker);
      return 'full';
    }
    const { epoch, number, keys } = snapshot;
    const fresh: Followed = { part, epoch, number, kept: undefined };
    this.#followed.set(worker, fresh);
    enterAll(this.#index, part, keys);
    const later = isSameLife ? (known.kept ?? []) : [];
    return later.map((batch) => this.apply(worker, batch)).includes('missed') ? 'missed' : 'applied';
  }

  /** The last batch that counts; undefined where nothing is known of the worker. */
  lastNumber(worker: number): number | undefined {
    return this.#followed.get(worker)?.number;
  }

  forget(worker: number): void {
    const known = this.#followed.get(worker);
    if (known === undefined) return;
    this.#index.closePart(known.part);
    this.#followed.delete(worker);
  }

  /** The first that is heard of a worker's life. */
  #begin(worker: number, batch: CacheBatch): NewsOutcome {
    this.forget(worker);
    const part = this.#index.openPart(worker);
    if (part === undefined) return 'full';
    const fresh: Followed = { part, epoch: batch.epoch, number: 0, kept: undefined };
    this.#followed.set(worker, fresh);
    return this.apply(worker, batch);
  }

  #bringIn(known: Followed, { number, entered, left }: CacheBatch): void {
    for (let i = 0; i < left.length; i += KEY_LANES) {
      this.#index.leave(known.part, left[i] as number, left[i + 1] as number);
    }
    enterAll(this.#index, known.part, entered);
    known.number = number;
  }
}

/** The last first: a chain's children come behind their parents, and should be forgotten before them. */
function enterAll(index: PrefixIndex, part: number, keys: Int32Array): void {
  for (let i = keys.length - KEY_LANES; i >= 0; i -= KEY_LANES) {
    index.enter(part, keys[i] as number, keys[i + 1] as number);
  }
}

function keep(kept: CacheBatch[], batch: CacheBatch): void {
  kept.push(batch);
  if (kept.length > MOST_KEPT) kept.shift();
}
