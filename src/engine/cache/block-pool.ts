// The physical KV blocks: who is free, who is referenced, and in which order free ones are taken again.
// Take, retain and release are O(1) whatever the pool's size. Knows neither tokens nor sequences.
//
// Free blocks are in one of four lists, taken from in this order:
//   empty        have memory, hold nothing worth keeping; last freed, first taken (their memory is warm)
//   uncommitted  have no memory yet, or no more; taken only where the limit allows one more to be resident
//   cached, LOW  hold a prefix written for LOW sequences only; least recently used first
//   cached       hold any other prefix; least recently used first
//
// All but the uncommitted are resident: they have memory. At most `limit` blocks are; where it is lowered, free
// blocks become uncommitted at once, others when they are freed.

import { type BlockOwner, BlockOwners } from './block-owners.ts';

export type BlockList = 'empty' | 'uncommitted' | 'cached-low' | 'cached';

const LISTS: readonly BlockList[] = ['empty', 'uncommitted', 'cached-low', 'cached'];
const CACHED = 1;
const LOW_WRITTEN = 2;
const TOUCHED = 4;
/** As `describe` writes it. */
const stateOfFlags = Uint8Array.from({ length: 8 }, (_, flags) =>
  flags & CACHED ? 2 : flags & TOUCHED ? 1 : 0,
);

export class BlockPool {
  readonly blockCount: number;
  readonly #references: Int32Array;
  readonly #flags: Uint8Array;
  // Circular doubly linked lists; after the blocks come the heads, in the order of LISTS.
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #onEvict: (block: number) => void;
  /** Where an account may hold a part of the blocks only. */
  #owners: BlockOwners | undefined;
  #limit: number;
  #residentCount = 0;
  #usedCount = 0;
  #sharedCount = 0;
  #cachedFreeCount = 0;
  #evictions = 0;
  #newlyUncommitted: number[] = [];

  /** `onEvict` hears of every cached block that is taken for something else, or loses its memory. */
  constructor(blockCount: number, onEvict: (block: number) => void) {
    if (!Number.isInteger(blockCount) || blockCount < 1) {
      throw new RangeError(`a block pool needs at least one block, got ${blockCount}`);
    }
    this.blockCount = blockCount;
    this.#limit = blockCount;
    this.#onEvict = onEvict;
    this.#references = new Int32Array(blockCount);
    this.#flags = new Uint8Array(blockCount);
    this.#next = new Int32Array(blockCount + LISTS.length);
    this.#previous = new Int32Array(blockCount + LISTS.length);
    this.#linkAllAsUntouched();
  }

  /** Most blocks that may be resident. */
  get limit(): number {
    return this.#limit;
  }

  /** Above the limit only while more than that are referenced. */
  get residentCount(): number {
    return this.#residentCount;
  }

  /** Blocks that can be taken now, cached ones included. */
  get freeCount(): number {
    const uncommitted = this.blockCount - this.#residentCount;
    return (
      this.#residentCount -
      this.#usedCount +
      Math.min(uncommitted, Math.max(0, this.#limit - this.#residentCount))
    );
  }

  /** Free blocks that still hold a prefix. */
  get cachedFreeCount(): number {
    return this.#cachedFreeCount;
  }

  get usedCount(): number {
    return this.#usedCount;
  }

  /** Blocks with more than one reference. */
  get sharedCount(): number {
    return this.#sharedCount;
  }

  /** Cached blocks that were taken for something else, since the start. */
  get evictions(): number {
    return this.#evictions;
  }

  get owners(): BlockOwners | undefined {
    return this.#owners;
  }

  /** From now on blocks can be taken for accounts. */
  countOwners(): BlockOwners {
    this.#owners ??= new BlockOwners(this.blockCount);
    return this.#owners;
  }

  /** Sets the limit, and drops free blocks as far as that takes: empty ones first, then as they would be taken. */
  setLimit(blocks: number): void {
    this.#limit = Math.min(blocks, this.blockCount);
    while (this.#residentCount > this.#limit) {
      const block = this.#first('empty') ?? this.#first('cached-low') ?? this.#first('cached');
      if (block === undefined) return;
      this.#uncommit(block);
    }
  }

  /** Blocks whose memory is needed no more, since the last call. They may have been taken anew meanwhile, unwritten. */
  takeUncommitted(): readonly number[] {
    const uncommitted = this.#newlyUncommitted;
    if (uncommitted.length > 0) this.#newlyUncommitted = [];
    return uncommitted;
  }

  references(block: number): number {
    return this.#references[block] as number;
  }

  /** Whether it is resident. For checks and tests. */
  hasMemory(block: number): boolean {
    return ((this.#flags[block] as number) & TOUCHED) !== 0;
  }

  isCached(block: number): boolean {
    return ((this.#flags[block] as number) & CACHED) !== 0;
  }

  isLowWritten(block: number): boolean {
    return ((this.#flags[block] as number) & LOW_WRITTEN) !== 0;
  }

  /** What each block is: 0 without memory, 1 not in the cache, 2 in it, 3 held by several, wherever. */
  describe(states: Int32Array): void {
    const references = this.#references;
    const flags = this.#flags;
    for (let block = 0; block < states.length; block++) {
      const state = stateOfFlags[flags[block] as number] as number;
      states[block] = (references[block] as number) > 1 ? 3 : state;
    }
  }

  /** A block with one reference and no content, evicting a cached one where it must. It counts for the owner, if there is one. */
  take(low: boolean, owner?: BlockOwner): number | undefined {
    const block =
      this.#first('empty') ?? this.#takeUntouched() ?? this.#first('cached-low') ?? this.#first('cached');
    if (block === undefined) return undefined;
    this.#unlink(block);
    if (this.isCached(block)) {
      this.#cachedFreeCount -= 1;
      this.#evictions += 1;
      this.#owners?.left(block, true);
      this.#onEvict(block);
    }
    if (owner !== undefined) this.#owners?.taken(block, owner);
    this.#flags[block] = low ? TOUCHED | LOW_WRITTEN : TOUCHED;
    this.#references[block] = 1;
    this.#usedCount += 1;
    return block;
  }

  /** One more reference; a free cached block comes back to life. */
  retain(block: number, low: boolean): void {
    if (this.#references[block] === 0) {
      if (!this.isCached(block)) throw new Error(`block ${block} is empty and cannot be shared`);
      this.#unlink(block);
      this.#owners?.revived(block);
      this.#usedCount += 1;
      this.#cachedFreeCount -= 1;
    }
    const references = this.references(block) + 1;
    this.#references[block] = references;
    if (references === 2) this.#sharedCount += 1;
    if (!low) this.#flags[block] = (this.#flags[block] as number) & ~LOW_WRITTEN;
  }

  release(block: number): void {
    const references = this.references(block) - 1;
    if (references < 0) throw new Error(`block ${block} was released more often than held`);
    this.#references[block] = references;
    if (references === 1) this.#sharedCount -= 1;
    if (references > 0) return;
    this.#usedCount -= 1;
    if (!this.isCached(block)) {
      this.#owners?.left(block, false);
      this.#insertAfter(this.#head('empty'), block);
    } else {
      this.#owners?.rested(block);
      this.#cachedFreeCount += 1;
      const head = this.#head(this.isLowWritten(block) ? 'cached-low' : 'cached');
      this.#insertAfter(this.#previous[head] as number, block);
    }
    if (this.#residentCount > this.#limit) this.#uncommit(block);
  }

  /** The block's content is final and may be found again. */
  markCached(block: number): void {
    if (this.#references[block] === 0) throw new Error(`block ${block} is free and cannot enter the cache`);
    this.#flags[block] = (this.#flags[block] as number) | CACHED;
  }

  /** The block's content is worth nothing any more. */
  uncache(block: number): void {
    if (!this.isCached(block)) return;
    this.#flags[block] = (this.#flags[block] as number) & ~CACHED;
    if (this.#references[block] !== 0) return;
    this.#unlink(block);
    this.#owners?.left(block, true);
    this.#cachedFreeCount -= 1;
    this.#insertAfter(this.#head('empty'), block);
  }

  /** Empties a free cached block before its time. */
  evict(block: number): void {
    this.#evictions += 1;
    this.#onEvict(block);
    this.uncache(block);
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

  #first(list: BlockList): number | undefined {
    const head = this.#head(list);
    const first = this.#next[head] as number;
    return first === head ? undefined : first;
  }

  #takeUntouched(): number | undefined {
    if (this.#residentCount >= this.#limit) return undefined;
    const block = this.#first('uncommitted');
    if (block !== undefined) this.#residentCount += 1;
    return block;
  }

  /** Takes the memory from a free block. */
  #uncommit(block: number): void {
    this.#unlink(block);
    if (this.isCached(block)) {
      this.#cachedFreeCount -= 1;
      this.#owners?.left(block, true);
      this.#onEvict(block);
    }
    this.#flags[block] = 0;
    this.#residentCount -= 1;
    this.#newlyUncommitted.push(block);
    this.#insertAfter(this.#head('uncommitted'), block);
  }

  #linkAllAsUntouched(): void {
    for (let head = this.blockCount; head < this.blockCount + LISTS.length; head++) {
      this.#next[head] = head;
      this.#previous[head] = head;
    }
    const uncommitted = this.#head('uncommitted');
    for (let block = this.blockCount - 1; block >= 0; block--) this.#insertAfter(uncommitted, block);
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
