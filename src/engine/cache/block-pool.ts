// The physical K/V blocks: who is free, who is referenced, and in which order free ones are taken again.
// Take, retain and release are O(1) whatever the pool's size. Knows neither tokens nor sequences.
//
// Free blocks are in one of three lists, taken from in this order:
//   empty        hold nothing worth keeping; last freed, first taken (its memory is warm)
//   cached, LOW  hold a prefix written for LOW sequences only; least recently used first
//   cached       hold any other prefix; least recently used first

export type BlockList = 'empty' | 'cached-low' | 'cached';

const LISTS: readonly BlockList[] = ['empty', 'cached-low', 'cached'];
const CACHED = 1;
const LOW_WRITTEN = 2;

export class BlockPool {
  readonly blockCount: number;
  readonly #references: Int32Array;
  readonly #flags: Uint8Array;
  // Circular doubly linked lists; after the blocks come the three heads, in the order of LISTS.
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #onEvict: (block: number) => void;
  #freeCount: number;
  #cachedFreeCount = 0;

  /** `onEvict` hears of every cached block that is taken for something else. */
  constructor(blockCount: number, onEvict: (block: number) => void) {
    if (!Number.isInteger(blockCount) || blockCount < 1) {
      throw new RangeError(`a block pool needs at least one block, got ${blockCount}`);
    }
    this.blockCount = blockCount;
    this.#onEvict = onEvict;
    this.#references = new Int32Array(blockCount);
    this.#flags = new Uint8Array(blockCount);
    this.#next = new Int32Array(blockCount + LISTS.length);
    this.#previous = new Int32Array(blockCount + LISTS.length);
    this.#freeCount = blockCount;
    this.#linkAllAsEmpty();
  }

  /** Blocks that can be taken now, cached ones included. */
  get freeCount(): number {
    return this.#freeCount;
  }

  /** Free blocks that still hold a prefix. */
  get cachedFreeCount(): number {
    return this.#cachedFreeCount;
  }

  get usedCount(): number {
    return this.blockCount - this.#freeCount;
  }

  references(block: number): number {
    return this.#references[block] as number;
  }

  isCached(block: number): boolean {
    return ((this.#flags[block] as number) & CACHED) !== 0;
  }

  isLowWritten(block: number): boolean {
    return ((this.#flags[block] as number) & LOW_WRITTEN) !== 0;
  }

  /** A block with one reference and no content, evicting a cached one where it must. */
  take(low: boolean): number | undefined {
    const block = this.#firstFree();
    if (block === undefined) return undefined;
    this.#unlink(block);
    if (this.isCached(block)) {
      this.#cachedFreeCount -= 1;
      this.#onEvict(block);
    }
    this.#flags[block] = low ? LOW_WRITTEN : 0;
    this.#references[block] = 1;
    this.#freeCount -= 1;
    return block;
  }

  /** One more reference; a free cached block comes back to life. */
  retain(block: number, low: boolean): void {
    if (this.#references[block] === 0) {
      if (!this.isCached(block)) throw new Error(`block ${block} is empty and cannot be shared`);
      this.#unlink(block);
      this.#freeCount -= 1;
      this.#cachedFreeCount -= 1;
    }
    this.#references[block] = this.references(block) + 1;
    if (!low) this.#flags[block] = (this.#flags[block] as number) & ~LOW_WRITTEN;
  }

  release(block: number): void {
    const references = this.references(block) - 1;
    if (references < 0) throw new Error(`block ${block} was released more often than held`);
    this.#references[block] = references;
    if (references > 0) return;
    this.#freeCount += 1;
    if (!this.isCached(block)) {
      this.#insertAfter(this.#head('empty'), block);
      return;
    }
    this.#cachedFreeCount += 1;
    const head = this.#head(this.isLowWritten(block) ? 'cached-low' : 'cached');
    this.#insertAfter(this.#previous[head] as number, block);
  }

  /** The block's content is final and may be found again. */
  markCached(block: number): void {
    if (this.#references[block] === 0) throw new Error(`block ${block} is free and cannot enter the cache`);
    this.#flags[block] = (this.#flags[block] as number) | CACHED;
  }

  /** The blocks of a list in the order in which they would be taken. O(list): for checks and tests. */
  *blocksOf(list: BlockList): Generator<number> {
    const head = this.#head(list);
    for (let block = this.#next[head] as number; block !== head; block = this.#next[block] as number) {
      if (this.#next[this.#previous[block] as number] !== block) {
        throw new Error(`the ${list} list is torn at block ${block}`);
      }
      yield block;
    }
  }

  #head(list: BlockList): number {
    return this.blockCount + LISTS.indexOf(list);
  }

  #firstFree(): number | undefined {
    for (let head = this.blockCount; head < this.blockCount + LISTS.length; head++) {
      const first = this.#next[head] as number;
      if (first !== head) return first;
    }
    return undefined;
  }

  #linkAllAsEmpty(): void {
    for (let head = this.blockCount; head < this.blockCount + LISTS.length; head++) {
      this.#next[head] = head;
      this.#previous[head] = head;
    }
    const empty = this.#head('empty');
    for (let block = this.blockCount - 1; block >= 0; block--) this.#insertAfter(empty, block);
  }

  #insertAfter(place: number, block: number): void {
    const following = this.#next[place] as number;
    this.#next[place] = block;
    this.#previous[block] = place;
    this.#next[block] = following;
    this.#previous[following] = block;
  }

  #unlink(block: number): void {
    const before = this.#previous[block] as number;
    const after = this.#next[block] as number;
    this.#next[before] = after;
    this.#previous[after] = before;
  }
}
