// A worker's K/V blocks: those that sequences hold, those that are only cached, least recently used first, and those that are
// not full yet. Blocks of equal content are one block. Tells which entered and left the cache.

export class SimulatedCache {
  readonly total: number;
  /** Full blocks that sequences hold, and how many do. */
  readonly #held = new Map<number, number>();
  /** Full blocks that nobody holds, the oldest first. */
  readonly #cached = new Set<number>();
  /** Blocks that are being written. */
  #written = 0;
  /** What has changed since the news were taken: true for what entered, false for what left. */
  readonly #changes = new Map<number, boolean>();

  constructor(total: number) {
    this.total = total;
  }

  /** Cached ones that nobody holds included. */
  get free(): number {
    return this.total - this.#held.size - this.#written;
  }

  /** Leading blocks of a chain that are there, up to `limit`. */
  match(chain: Int32Array, limit: number): number {
    let count = 0;
    while (count < limit && this.#has(chain[count] as number)) count += 1;
    return count;
  }

  /** Of the first `count`, those that nobody holds. */
  unheld(chain: Int32Array, count: number): number {
    let unheld = 0;
    for (let i = 0; i < count; i++) if (!this.#held.has(chain[i] as number)) unheld += 1;
    return unheld;
  }

  /** Holds the first `count` blocks, which are there. */
  hold(chain: Int32Array, count: number): void {
    for (let i = 0; i < count; i++) this.#holdOne(chain[i] as number);
  }

  /** A block to write to; false where every block is held. */
  take(): boolean {
    if (this.free < 1) return false;
    if (this.#held.size + this.#written + this.#cached.size === this.total) this.#evict();
    this.#written += 1;
    return true;
  }

  /** A written block is full. */
  publish(block: number): void {
    this.#written -= 1;
    if (!this.#has(block)) this.#note(block, true);
    this.#holdOne(block);
  }

  /** Gives back the first `full` blocks, the last first, and `written` ones that are not full. */
  release(chain: Int32Array, full: number, written: number): void {
    this.#written -= written;
    for (let i = full - 1; i >= 0; i--) {
      const block = chain[i] as number;
      const holders = (this.#held.get(block) as number) - 1;
      if (holders > 0) {
        this.#held.set(block, holders);
      } else {
        this.#held.delete(block);
        this.#cached.add(block);
      }
    }
  }

  /** What entered and left since the last call; undefined where nothing did. */
  takeNews(): { readonly entered: number[]; readonly left: number[] } | undefined {
    if (this.#changes.size === 0) return undefined;
    const entered: number[] = [];
    const left: number[] = [];
    for (const [block, isNew] of this.#changes) (isNew ? entered : left).push(block);
    this.#changes.clear();
    return { entered, left };
  }

  /** All blocks that can be found. */
  contents(): number[] {
    return [...this.#held.keys(), ...this.#cached];
  }

  #has(block: number): boolean {
    return this.#held.has(block) || this.#cached.has(block);
  }

  #holdOne(block: number): void {
    this.#cached.delete(block);
    this.#held.set(block, (this.#held.get(block) ?? 0) + 1);
  }

  #evict(): void {
    const [oldest] = this.#cached;
    if (oldest === undefined) throw new Error('no block is free');
    this.#cached.delete(oldest);
    this.#note(oldest, false);
  }

  /** What goes and comes back, or comes and goes, between two looks is no news. */
  #note(block: number, isNew: boolean): void {
    if (this.#changes.get(block) === !isNew) this.#changes.delete(block);
    else this.#changes.set(block, isNew);
  }
}
