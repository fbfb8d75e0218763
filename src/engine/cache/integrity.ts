// Every invariant of the cache, stated as code. Throws an error that names the first one broken. O(blocks):
// for tests, which run it after every step, and for diagnosis.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockHolder } from './block-holder.ts';
import { imagesAt } from './block-images.ts';
import type { BlockList, BlockPool } from './block-pool.ts';
import { type BlockTables, blocksFor, fullBlocks } from './block-tables.ts';
import type { StateSlots } from './state-slots.ts';

/** `holders`: all that hold blocks; `ends`: how far a step that is under way computes those that it computes. */
export function checkCacheIntegrity(
  tables: BlockTables,
  holders: readonly BlockHolder[],
  ends: ReadonlyMap<BlockHolder, number> = new Map(),
): void {
  const order = evictionOrder(tables);
  checkReferences(tables, holders, order);
  checkPrefixes(tables, order);
  for (const holder of holders) checkHolder(tables, holder, Math.max(holder.length, ends.get(holder) ?? 0));
  checkOwners(tables, holders);
  if (tables.recurrentStates !== undefined) checkStates(tables, tables.recurrentStates, holders);
}

function checkStates({ pool }: BlockTables, states: StateSlots, holders: readonly BlockHolder[]): void {
  const held = new Int32Array(states.pool.blockCount);
  const count = (slot: number | undefined) => {
    if (slot !== undefined) held[slot] = (held[slot] as number) + 1;
  };
  for (const { id, recurrent, computed } of holders) {
    const { slot: own, written = [] } = recurrent ?? {};
    count(own);
    for (const { slot } of written) if (slot !== own) count(slot);
    invariant(
      written.length > 0 || (own === undefined) === (computed === 0),
      `${id} has the state after its computed tokens`,
    );
  }
  const checkpoints = new Map<number, number>();
  for (let block = 0; block < pool.blockCount; block++) {
    const slot = states.checkpointAfter(block);
    if (slot === undefined) continue;
    invariant(pool.isCached(block), `block ${block}, which has a checkpoint, is in the cache`);
    invariant(!checkpoints.has(slot), `state ${slot} is the checkpoint of one block`);
    checkpoints.set(slot, block);
  }
  for (let slot = 0; slot < held.length; slot++) {
    const references = states.pool.references(slot);
    invariant(references === held[slot], `state ${slot}: ${references} references, ${held[slot]} holders`);
    invariant(states.pool.isCached(slot) === checkpoints.has(slot), `state ${slot} is a checkpoint, or not`);
  }
}

/** What counts for each account is what its blocks add up to. */
function checkOwners({ pool }: BlockTables, holders: readonly BlockHolder[]): void {
  const { owners } = pool;
  if (owners === undefined) return;
  const held = new Map<string, number>();
  for (let block = 0; block < pool.blockCount; block++) {
    const owner = owners.ownerOf(block);
    if (owner === undefined) continue;
    held.set(owner.account, (held.get(owner.account) ?? 0) + 1);
    invariant(pool.references(block) > 0 || pool.isCached(block), `block ${block} counts while it is of use`);
  }
  for (const owner of owners) {
    const { account, evictable } = owner;
    invariant(owner.held === (held.get(account) ?? 0), `${account} holds ${owner.held} blocks`);
    const listed = [...owners.evictableOf(owner)];
    invariant(listed.length === evictable, `${account} has ${evictable} blocks to lose`);
    for (const block of listed) {
      invariant(owners.ownerOf(block) === owner, `block ${block} is ${account}'s to lose`);
      invariant(pool.references(block) === 0 && pool.isCached(block), `block ${block} can be lost`);
    }
    const running = holders.filter((one) => one.account === account && one.kvShare !== undefined).length;
    invariant(owner.running === running, `${account} runs ${running}`);
    invariant(owner.held > 0 || running > 0, `${account} is known while it holds or runs something`);
  }
}

export function invariant(holds: boolean, name: string): asserts holds {
  if (!holds) throw new Error(`broken invariant: ${name}`);
}

/** Each free block that has memory with its place in the order of eviction; checks the free lists on the way. */
function evictionOrder({ pool }: BlockTables): Map<number, number> {
  const order = new Map<number, number>();
  const listOf = (block: number): BlockList => {
    if (!pool.isCached(block)) return 'empty';
    return pool.isLowWritten(block) ? 'cached-low' : 'cached';
  };
  for (const list of ['empty', 'cached-low', 'cached'] as const) {
    for (const block of pool.blocksOf(list)) {
      invariant(!order.has(block), `block ${block} is in one free list, once`);
      invariant(listOf(block) === list, `block ${block} in the ${list} list belongs to ${listOf(block)}`);
      order.set(block, order.size);
    }
  }
  const cached = [...order.keys()].filter((block) => pool.isCached(block)).length;
  invariant(
    cached === pool.cachedFreeCount,
    `${cached} cached blocks are free, ${pool.cachedFreeCount} counted`,
  );
  checkUncommitted(pool, order);
  return order;
}

function checkUncommitted(pool: BlockPool, held: ReadonlyMap<number, number>): void {
  const { blockCount, residentCount, usedCount, limit } = pool;
  const uncommitted = new Set(pool.blocksOf('uncommitted'));
  for (const block of uncommitted) {
    invariant(!held.has(block), `block ${block}, without memory, is in one free list`);
    invariant(
      !pool.isCached(block) && pool.references(block) === 0,
      `block ${block}, without memory, holds nothing`,
    );
  }
  invariant(uncommitted.size === blockCount - residentCount, `${uncommitted.size} blocks have no memory`);
  invariant(
    held.size === residentCount - usedCount,
    `${held.size} free blocks are listed, ${residentCount - usedCount} counted`,
  );
  invariant(
    residentCount <= Math.max(limit, usedCount),
    `${residentCount} blocks are held within the limit of ${limit}`,
  );
}

function checkReferences(
  { pool }: BlockTables,
  holders: readonly BlockHolder[],
  free: ReadonlyMap<number, number>,
): void {
  const uncommitted = new Set(pool.blocksOf('uncommitted'));
  const held = new Int32Array(pool.blockCount);
  for (const { blocks } of holders) for (const block of blocks) held[block] = (held[block] as number) + 1;
  for (let block = 0; block < pool.blockCount; block++) {
    const references = pool.references(block);
    invariant(references === held[block], `block ${block}: ${references} references, ${held[block]} holders`);
    const isFree = free.has(block) || uncommitted.has(block);
    invariant(isFree === (references === 0), `block ${block} is either free or referenced`);
  }
  const shared = held.filter((holdersOfBlock) => holdersOfBlock > 1).length;
  invariant(shared === pool.sharedCount, `${shared} blocks are shared, ${pool.sharedCount} counted`);
}

function checkPrefixes({ pool, prefixes }: BlockTables, free: ReadonlyMap<number, number>): void {
  const cached = new Set(prefixes.blocks());
  invariant(
    cached.size === prefixes.size,
    `${cached.size} blocks in the prefix table, ${prefixes.size} counted`,
  );
  for (let block = 0; block < pool.blockCount; block++) {
    invariant(
      cached.has(block) === pool.isCached(block),
      `block ${block} is cached in the pool and the table`,
    );
  }
  for (const block of cached) {
    const parent = prefixes.parentOf(block);
    if (parent < 0) continue;
    const place = free.get(block);
    const parentPlace = free.get(parent);
    invariant(cached.has(parent), `the parent ${parent} of cached block ${block} is cached`);
    invariant(
      place !== undefined || parentPlace === undefined,
      `the parent ${parent} of ${block} is referenced too`,
    );
    invariant(
      place === undefined || parentPlace === undefined || place < parentPlace,
      `block ${block} is evicted before its parent ${parent}`,
    );
    invariant(
      pool.isLowWritten(block) || !pool.isLowWritten(parent),
      `the parent ${parent} of block ${block} is kept as long`,
    );
  }
}

function checkHolder({ pool, prefixes }: BlockTables, holder: BlockHolder, end: number): void {
  const { id, blocks, computed, length } = holder;
  invariant(computed < length, `${id} has a token to compute: ${computed} of ${length} are`);
  invariant(blocks.length >= blocksFor(computed), `${id} has blocks for its ${computed} computed tokens`);
  invariant(blocks.length <= blocksFor(end), `${id} has no blocks beyond its ${end} tokens`);
  invariant(new Set(blocks).size === blocks.length, `${id} holds each block once`);
  let parent = prefixes.root(holder.salt);
  for (const [i, block] of blocks.entries()) {
    if (i >= fullBlocks(holder)) {
      invariant(!pool.isCached(block), `${id}: block ${block}, not full yet, is not cached`);
      invariant(pool.references(block) === 1, `${id} alone holds block ${block}, which it writes to`);
      continue;
    }
    invariant(pool.isCached(block), `${id}: full block ${block} is cached`);
    const offset = i * BLOCK_TOKENS;
    const found = prefixes.find(parent, holder.storage, offset, imagesAt(holder, offset));
    invariant(found === block, `${id}: block ${block} is the one for its tokens and prefix, not ${found}`);
    parent = block;
  }
}
