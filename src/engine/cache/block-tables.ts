// Gives sequences their blocks: finds shared prefixes, grows tables, publishes full blocks.
//
// Only full blocks are shared, and what is full is never written again: a block that someone writes to has one
// holder, by construction.
//
// A sequence's full blocks are always the cached ones for their tokens: where two sequences computed the
// same prefix, the later one changes to the earlier one's block when it publishes. So who holds a block
// holds its whole prefix, releasing in reverse makes children older than their parents, and eviction, which
// takes the oldest first, never takes a parent before its children.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockHolder } from './block-holder.ts';
import { imagesAt } from './block-images.ts';
import type { BlockOwner } from './block-owners.ts';
import { BlockPool } from './block-pool.ts';
import { PrefixCache } from './prefix-cache.ts';
import type { PrefixNode } from './prefix-key.ts';
import { StateSlots } from './state-slots.ts';

export function blocksFor(tokens: number): number {
  return Math.ceil(tokens / BLOCK_TOKENS);
}

/** Leading blocks whose every row is computed: the published ones, where blocks are published at all. */
export function fullBlocks(holder: BlockHolder): number {
  return Math.floor(holder.computed / BLOCK_TOKENS);
}

/** Leading blocks that a sequence may find in the cache: none with a row that must be computed. */
export function reusableBlocks(holder: BlockHolder): number {
  return Math.floor(holder.firstRequiredPosition / BLOCK_TOKENS);
}

/** Hears what leaves memory, while it still can be read: see lower tiers. */
export interface CacheListener {
  /** The cached block, with its checkpoint if there is one, is about to be taken for something else. */
  evicting(block: number): void;
  /** The checkpoint of a block that stays is. */
  evictingState(slot: number, block: number): void;
  /** The cached block is emptied, with its checkpoint, and is to be kept nowhere. */
  dropping(block: number): void;
  /** A sequence lets go of its blocks, those that are full first. */
  released(holder: BlockHolder): void;
}

export class BlockTables {
  listener: CacheListener | undefined;
  readonly pool: BlockPool;
  readonly prefixes: PrefixCache;
  /** Where the model has recurrent layers. */
  readonly recurrentStates: StateSlots | undefined;
  /** Whether full blocks are put into the prefix cache: they are of no use where keys and values depend on later tokens. */
  readonly #publishes: boolean;

  constructor(blockCount: number, stateSlots?: number, publishes = true) {
    this.#publishes = publishes;
    this.prefixes = new PrefixCache(blockCount);
    const evictingState = (slot: number, block: number) => this.listener?.evictingState(slot, block);
    this.recurrentStates =
      stateSlots === undefined ? undefined : new StateSlots(stateSlots, blockCount, evictingState);
    this.pool = new BlockPool(blockCount, (block) => {
      this.listener?.evicting(block);
      this.prefixes.forget(block);
      this.recurrentStates?.forget(block);
    });
  }

  /** The cached blocks of the longest known prefix. Changes nothing. */
  match(holder: BlockHolder): number[] {
    const limit = reusableBlocks(holder);
    const matched: number[] = [];
    let parent = this.prefixes.root(holder.salt);
    while (matched.length < limit) {
      const offset = matched.length * BLOCK_TOKENS;
      const block = this.prefixes.find(parent, holder.storage, offset, imagesAt(holder, offset));
      if (block === undefined) break;
      matched.push(block);
      parent = block;
    }
    return matched;
  }

  /** Those of the matched blocks, from the first on, after which a sequence can go on. */
  resumable(matched: number[]): number[] {
    return this.recurrentStates === undefined
      ? matched
      : matched.slice(0, this.recurrentStates.reach(matched));
  }

  /** Blocks in use that a waiting sequence would add: new ones, and matched ones that nobody holds. */
  addedBlocks(holder: BlockHolder, matched: readonly number[]): number {
    const held = matched.reduce((count, block) => count + Number(this.pool.references(block) > 0), 0);
    return blocksFor(holder.length) - held;
  }

  /** Blocks that nobody holds once this sequence lets go of its own. */
  ownBlocks({ blocks }: BlockHolder): number {
    return blocks.reduce((count, block) => count + Number(this.pool.references(block) === 1), 0);
  }

  /** Whether a sequence that starts on matched blocks finds others to write to. */
  hasBlocksAfter(matched: readonly number[], count: number): boolean {
    const revived = matched.reduce((sum, block) => sum + Number(this.pool.references(block) === 0), 0);
    return this.pool.freeCount >= revived + count;
  }

  /** The blocks that a part of the cache is now, one at least. */
  shareBlocks(kvShare: number): number {
    return Math.max(1, Math.floor(kvShare * this.pool.limit));
  }

  /**
   * Whether its account may have `blocks` more in use. Its cached blocks are evicted for them, and an account that runs nothing
   * else always may: others may use what counts for it, and the limit may have been lowered.
   */
  fitsShareAfterEviction({ account, kvShare }: BlockHolder, blocks: number): boolean {
    if (kvShare === undefined) return true;
    const owner = this.pool.owners?.of(account);
    if (owner === undefined || owner.running === 0) return true;
    return owner.held - owner.evictable + blocks <= this.shareBlocks(kvShare);
  }

  /** Whether a running sequence may take more blocks; cached ones of its account may be evicted for them. */
  mayTakeBlock(holder: BlockHolder, count = 1): boolean {
    return this.pool.owners?.of(holder.account)?.running === 1 || this.fitsShareAfterEviction(holder, count);
  }

  /** Whether it may do so while all cached blocks of its account stay. */
  fitsShareWithoutEviction({ account, kvShare }: BlockHolder): boolean {
    if (kvShare === undefined) return true;
    return (this.pool.owners?.of(account)?.held ?? 0) < this.shareBlocks(kvShare);
  }

  /** Starts a sequence without blocks on matched ones. */
  adopt(holder: BlockHolder, matched: readonly number[]): void {
    if (holder.kvShare !== undefined) this.pool.countOwners().started(holder.account);
    for (const block of matched) {
      this.pool.retain(block, holder.low);
      holder.blocks.push(block);
    }
    holder.computed = matched.length * BLOCK_TOKENS;
    this.recurrentStates?.adopt(holder);
  }

  /**
   * Starts a sequence whose tokens up to the block `end` come from elsewhere: on cached blocks as far as those go, and on new ones.
   * False, and nothing changed but what was evicted, where there is no room for all of them.
   */
  reserve(holder: BlockHolder, found: readonly number[], end: number): boolean {
    if (holder.kvShare !== undefined) this.pool.countOwners().started(holder.account);
    for (const block of found.slice(0, end)) {
      this.pool.retain(block, holder.low);
      holder.blocks.push(block);
    }
    holder.computed = holder.blocks.length * BLOCK_TOKENS;
    const count = end * BLOCK_TOKENS - holder.computed;
    const fits = this.grow(holder, count) === count && this.recurrentStates?.reserve(holder, end) !== false;
    if (!fits) this.release(holder);
    return fits;
  }

  /** The blocks that were reserved are written up to here, as are states where there are any. */
  fill(holder: BlockHolder, end: number): void {
    this.advance(holder, end * BLOCK_TOKENS - holder.computed);
  }

  /** Blocks that must be taken before the next `count` positions can be written. */
  lackFor(holder: BlockHolder, count: number): number {
    return Math.max(0, blocksFor(holder.computed + count) - holder.blocks.length);
  }

  /** Makes positions from `computed` on writable: as many of `count` as free blocks allow, which is returned. */
  grow(holder: BlockHolder, count: number): number {
    const wanted = blocksFor(holder.computed + count);
    while (holder.blocks.length < wanted) {
      const block = this.#take(holder);
      if (block === undefined) break;
      holder.blocks.push(block);
    }
    const granted = Math.min(count, holder.blocks.length * BLOCK_TOKENS - holder.computed);
    this.assertWritable(holder, granted);
    return granted;
  }

  /** Throws unless the next `count` positions lie in blocks that only this sequence holds. */
  assertWritable(holder: BlockHolder, count: number): void {
    const last = blocksFor(holder.computed + count);
    for (let i = fullBlocks(holder); i < last; i++) {
      const block = holder.blocks[i];
      if (block === undefined || this.pool.references(block) !== 1 || this.pool.isCached(block)) {
        throw new Error(`sequence ${holder.id} must not write to its block ${i} (${block})`);
      }
    }
  }

  /** Advances `computed` and puts the blocks that became full into the prefix cache. */
  advance(holder: BlockHolder, count: number): void {
    const first = fullBlocks(holder);
    holder.computed += count;
    if (!this.#publishes) return;
    let parent = first > 0 ? (holder.blocks[first - 1] as number) : this.prefixes.root(holder.salt);
    for (let i = first; i < fullBlocks(holder); i++) parent = this.#publish(holder, i, parent);
    this.recurrentStates?.commit(holder);
  }

  /** Gives blocks back that no token of the sequence needs: they were for draft tokens. */
  trim(holder: BlockHolder): void {
    const needed = blocksFor(holder.length);
    while (holder.blocks.length > needed) this.pool.release(holder.blocks.pop() as number);
  }

  /** Gives all blocks back, the last first; cached ones can be found until they are taken. */
  release(holder: BlockHolder): void {
    this.listener?.released(holder);
    for (let i = holder.blocks.length - 1; i >= 0; i--) this.pool.release(holder.blocks[i] as number);
    holder.blocks.length = 0;
    holder.computed = 0;
    this.recurrentStates?.release(holder);
    if (holder.kvShare !== undefined) this.pool.owners?.stopped(holder.account);
  }

  /** Empties a cached block that nobody holds and on which no other builds; otherwise it stays, and this is false. */
  drop(block: number): boolean {
    const isUsed = this.pool.references(block) > 0 || this.prefixes.hasChildren(block);
    if (isUsed || !this.pool.isCached(block)) return false;
    this.listener?.dropping(block);
    this.prefixes.forget(block);
    this.recurrentStates?.forget(block);
    this.pool.uncache(block);
    return true;
  }

  /** Within its account's part; where that is full, what the account has cached goes, the longest unused first. */
  #take(holder: BlockHolder): number | undefined {
    const owner = holder.kvShare === undefined ? undefined : this.pool.owners?.of(holder.account);
    if (owner === undefined) return this.pool.take(holder.low);
    if (!this.mayTakeBlock(holder)) return undefined;
    while (!this.fitsShareWithoutEviction(holder) && owner.evictable > 0) this.#evictOf(owner);
    return this.pool.take(holder.low, owner);
  }

  /** A block on which cached ones of others build stays, and counts for nobody from now on. */
  #evictOf({ first }: BlockOwner): void {
    const block = first - 1;
    if (this.prefixes.hasChildren(block)) this.pool.owners?.left(block, true);
    else this.pool.evict(block);
  }

  #publish(holder: BlockHolder, index: number, parent: PrefixNode): number {
    const block = holder.blocks[index] as number;
    const offset = index * BLOCK_TOKENS;
    const images = imagesAt(holder, offset);
    const known = this.prefixes.find(parent, holder.storage, offset, images);
    if (known === undefined) {
      this.prefixes.insert(block, parent, holder.storage, offset, images);
      this.pool.markCached(block);
      return block;
    }
    this.pool.retain(known, holder.low);
    holder.blocks[index] = known;
    this.pool.release(block);
    return known;
  }
}
