// Finds the block that holds given tokens after a given prefix. An entry is (parent block, 32 tokens); the
// first block's parent is its salt's root. A parent never leaves before its children (see block-tables.ts),
// so comparing the parent and the tokens compares the whole prefix, and a hash collision cannot give a hit.

import { BLOCK_TOKENS } from '../../compute/backend.ts';

/** A block, or a salt's root (negative). */
export type PrefixNode = number;

export class PrefixCache {
  // Chained hash table. Links hold block + 1, so that zeroed memory is an empty table.
  readonly #buckets: Int32Array;
  readonly #bucketShift: number;
  readonly #links: Int32Array;
  readonly #hashes: Int32Array;
  readonly #parents: Int32Array;
  readonly #tokens: Int32Array;
  readonly #roots = new Map<string, PrefixNode>();
  #size = 0;

  constructor(blockCount: number) {
    const bucketBits = Math.ceil(Math.log2(2 * blockCount));
    this.#bucketShift = 32 - bucketBits;
    this.#buckets = new Int32Array(2 ** bucketBits);
    this.#links = new Int32Array(blockCount);
    this.#hashes = new Int32Array(blockCount);
    this.#parents = new Int32Array(blockCount);
    this.#tokens = new Int32Array(blockCount * BLOCK_TOKENS);
  }

  /** Blocks in the cache. */
  get size(): number {
    return this.#size;
  }

  /** Where prefixes of this salt begin. One is kept per salt ever seen, so salts are few: one a key. */
  root(salt: string): PrefixNode {
    let root = this.#roots.get(salt);
    if (root === undefined) {
      root = -1 - this.#roots.size;
      this.#roots.set(salt, root);
    }
    return root;
  }

  /** The block holding the 32 tokens from `offset` on, after `parent`. */
  find(parent: PrefixNode, tokens: Int32Array, offset: number): number | undefined {
    const hash = this.#hash(parent, tokens, offset);
    let link = this.#buckets[this.#bucket(hash)] as number;
    while (link !== 0) {
      const block = link - 1;
      if (this.#hashes[block] === hash && this.holds(block, parent, tokens, offset)) return block;
      link = this.#links[block] as number;
    }
    return undefined;
  }

  /** Precondition: `find` gives nothing for the same prefix. */
  insert(block: number, parent: PrefixNode, tokens: Int32Array, offset: number): void {
    const hash = this.#hash(parent, tokens, offset);
    const bucket = this.#bucket(hash);
    this.#hashes[block] = hash;
    this.#parents[block] = parent;
    for (let i = 0; i < BLOCK_TOKENS; i++) {
      this.#tokens[block * BLOCK_TOKENS + i] = tokens[offset + i] as number;
    }
    this.#links[block] = this.#buckets[bucket] as number;
    this.#buckets[bucket] = block + 1;
    this.#size += 1;
  }

  forget(block: number): void {
    const bucket = this.#bucket(this.#hashes[block] as number);
    const following = this.#links[block] as number;
    if (this.#buckets[bucket] === block + 1) {
      this.#buckets[bucket] = following;
    } else {
      let link = this.#buckets[bucket] as number;
      while (link !== 0 && this.#links[link - 1] !== block + 1) link = this.#links[link - 1] as number;
      if (link === 0) throw new Error(`block ${block} is not in the prefix cache`);
      this.#links[link - 1] = following;
    }
    this.#size -= 1;
  }

  /** Whether the cached block is the one for these tokens after this parent. */
  holds(block: number, parent: PrefixNode, tokens: Int32Array, offset: number): boolean {
    if (this.#parents[block] !== parent) return false;
    const base = block * BLOCK_TOKENS;
    for (let i = 0; i < BLOCK_TOKENS; i++) {
      if (this.#tokens[base + i] !== tokens[offset + i]) return false;
    }
    return true;
  }

  parentOf(block: number): PrefixNode {
    return this.#parents[block] as number;
  }

  /** Every cached block, by walking the table. O(blocks): for checks and tests. */
  *blocks(): Generator<number> {
    for (let bucket = 0; bucket < this.#buckets.length; bucket++) {
      let link = this.#buckets[bucket] as number;
      while (link !== 0) {
        yield link - 1;
        link = this.#links[link - 1] as number;
      }
    }
  }

  #bucket(hash: number): number {
    return Math.imul(hash, 0x9e3779b1) >>> this.#bucketShift;
  }

  #hash(parent: PrefixNode, tokens: Int32Array, offset: number): number {
    const seed = parent >= 0 ? (this.#hashes[parent] as number) : Math.imul(parent, 0x9e3779b1);
    return chainKey(seed, tokens, offset, offset + BLOCK_TOKENS);
  }
}

/** The key of a prefix, going on from the key of the prefix before it. */
export function chainKey(seed: number, tokens: Int32Array, start: number, end: number): number {
  let key = seed;
  for (let i = start; i < end; i++) {
    key = Math.imul(key ^ (tokens[i] as number), 0x85ebca6b);
    key ^= key >>> 15;
  }
  return key;
}
