// What vision towers have made of images, by key: kept for those that use it, and for others as far as there is room, the longest
// unused going first. Room is taken before features are there, so that nobody counts on the same.

import type { ImageFeatures } from '../../compute/backend.ts';

/** Sixteen images of 1,000 tokens, of a wide model with features for several layers: so many requests may show one at once. */
export const DEFAULT_IMAGE_BYTES = 1 << 30;

interface Entry {
  readonly bytes: number;
  users: number;
  /** Undefined while they are computed. */
  features: ImageFeatures | undefined;
}

export class FeatureStore {
  readonly #limitBytes: number;
  /** The longest unused first. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;
  #usedBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get limitBytes(): number {
    return this.#limitBytes;
  }

  /** Of all that is here or has room. Above the limit only where what is in use needs it. */
  get bytes(): number {
    return this.#bytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: string): boolean {
    return this.#entries.get(key)?.features !== undefined;
  }

  featuresOf(key: string): ImageFeatures | undefined {
    return this.#entries.get(key)?.features;
  }

  /** Bytes in use that a further one would add. */
  addedBytes(key: string, bytes: number): number {
    return (this.#entries.get(key)?.users ?? 0) > 0 ? 0 : bytes;
  }

  /** Keeps what is here, or room for it, until it is released as often. */
  use(key: string, bytes: number): void {
    const entry = this.#entries.get(key) ?? { bytes, users: 0, features: undefined };
    if (!this.#entries.has(key)) this.#bytes += bytes;
    if (entry.users === 0) this.#usedBytes += entry.bytes;
    entry.users += 1;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    this.#evict();
  }

  release(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.users === 0) throw new Error(`nobody uses the features of ${key}`);
    entry.users -= 1;
    if (entry.users > 0) return;
    this.#usedBytes -= entry.bytes;
    if (entry.features === undefined) this.#remove(key, entry);
    else this.#evict();
  }

  /** Of an image for which there is room. */
  put(key: string, features: ImageFeatures): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) throw new Error(`there is no room for the features of ${key}`);
    entry.features = features;
  }

  #evict(): void {
    if (this.#bytes <= this.#limitBytes) return;
    for (const [key, entry] of this.#entries) {
      if (entry.users === 0) this.#remove(key, entry);
      if (this.#bytes <= this.#limitBytes) return;
    }
  }

  #remove(key: string, { bytes }: Entry): void {
    this.#entries.delete(key);
    this.#bytes -= bytes;
  }
}
