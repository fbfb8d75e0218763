// Finds the block that holds given tokens after a given prefix. An entry is (parent block, 32 tokens, what they show); the
// first block's parent is its salt's root. A parent never leaves before its children (see block-tables.ts), so comparing the
// parent, the tokens and their images (block-images.ts) compares the whole prefix, and a hash collision cannot give a hit.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { firstImageToken } from './block-images.ts';
import { PrefixEventLog, type PrefixEvents } from './prefix-events.ts';
import type { PrefixNode } from './prefix-key.ts';

/** Of one parent, looked at for the nearest; the latest first. */
const MOST_SIBLINGS = 64;
/** Other salts looked at, the latest first. */
const MOST_SALTS = 16;

export class PrefixCache {
  // Chained hash table. Links hold block + 1, so that zeroed memory is an empty table.
  readonly #buckets: Int32Array;
  readonly #bucketShift: number;
  readonly #links: Int32Array;
  readonly #hashes: Int32Array;
  readonly #parents: Int32Array;
  // Those of one parent, doubly linked: the first of each block, and of each root.
  readonly #children: Int32Array;
  readonly #rootChildren: number[] = [];
  readonly #following: Int32Array;
  readonly #preceding: Int32Array;
  readonly #tokens: Int32Array;
  /** Of blocks with tokens that stand for images; see BlockImages. */
  readonly #images = new Map<number, string>();
  readonly #roots = new Map<string, PrefixNode>();
  readonly #salts: string[] = [];
  /** Keys of prefixes that were here: of those with the same bucket the last. */
  readonly #evicted: Int32Array;
  #size = 0;
  #eventLog: PrefixEventLog | undefined;

  constructor(blockCount: number) {
    const bucketBits = Math.ceil(Math.log2(2 * blockCount));
    this.#bucketShift = 32 - bucketBits;
    this.#buckets = new Int32Array(2 ** bucketBits);
    this.#links = new Int32Array(blockCount);
    this.#hashes = new Int32Array(blockCount);
    this.#parents = new Int32Array(blockCount);
    this.#children = new Int32Array(blockCount);
    this.#following = new Int32Array(blockCount);
    this.#preceding = new Int32Array(blockCount);
    this.#evicted = new Int32Array(2 ** bucketBits);
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
      this.#salts.push(salt);
    }
    return root;
  }

  /** The block holding the 32 tokens from `offset` on, with these images, after `parent`. */
  find(parent: PrefixNode, tokens: Int32Array, offset: number, images = ''): number | undefined {
    const hash = this.#hash(parent, tokens, offset, images);
    let link = this.#buckets[this.#bucket(hash)] as number;
    while (link !== 0) {
      const block = link - 1;
      if (this.#hashes[block] === hash && this.holds(block, parent, tokens, offset, images)) return block;
      link = this.#links[block] as number;
    }
    return undefined;
  }

  /** Precondition: `find` gives nothing for the same prefix. */
  insert(block: number, parent: PrefixNode, tokens: Int32Array, offset: number, images = ''): void {
    const hash = this.#hash(parent, tokens, offset, images);
    const bucket = this.#bucket(hash);
    this.#hashes[block] = hash;
    this.#parents[block] = parent;
    for (let i = 0; i < BLOCK_TOKENS; i++) {
      this.#tokens[block * BLOCK_TOKENS + i] = tokens[offset + i] as number;
    }
    if (images !== '') this.#images.set(block, images);
    this.#links[block] = this.#buckets[bucket] as number;
    this.#buckets[bucket] = block + 1;
    this.#joinSiblings(block, parent);
    this.#size += 1;
    this.#eventLog?.entered(block, parent, this.#saltOf(parent), tokens, offset, images);
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
    this.#leaveSiblings(block);
    this.#eventLog?.left(block);
    this.#images.delete(block);
    this.#evicted[bucket] = this.#hashes[block] as number;
    this.#size -= 1;
  }

  /** From now on it writes down what enters and leaves; gives what is here now. */
  startEvents(): PrefixEvents {
    const log = new PrefixEventLog(this.#links.length);
    this.#eventLog = log;
    const write = (parent: PrefixNode) => {
      for (let link = this.#firstChild(parent); link !== 0; link = this.#following[link - 1] as number) {
        const block = link - 1;
        const images = this.#imagesOf(block);
        log.entered(block, parent, this.#saltOf(parent), this.#tokens, block * BLOCK_TOKENS, images);
        open.push(block);
      }
    };
    const open: PrefixNode[] = [...this.#roots.values()];
    for (let node = open.pop(); node !== undefined; node = open.pop()) write(node);
    return { kind: 'all', keys: log.take()?.entered ?? new Int32Array(0) };
  }

  endEvents(): void {
    this.#eventLog = undefined;
  }

  /** Events since the last call. */
  takeEvents(): PrefixEvents | undefined {
    return this.#eventLog?.take();
  }

  /** Whether a block for these tokens was here and had to leave; of long ago nothing is known. */
  wasEvicted(parent: PrefixNode, tokens: Int32Array, offset: number, images = ''): boolean {
    const hash = this.#hash(parent, tokens, offset, images);
    return hash !== 0 && this.#evicted[this.#bucket(hash)] === hash;
  }

  /** Leading tokens from `offset` on that the nearest block after `parent` has in common with these. */
  nearest(parent: PrefixNode, tokens: Int32Array, offset: number, images = ''): number {
    let most = 0;
    let link = this.#firstChild(parent);
    for (let seen = 0; link !== 0 && seen < MOST_SIBLINGS; seen++) {
      const base = (link - 1) * BLOCK_TOKENS;
      const shown = this.#imagesOf(link - 1);
      // Of other images nothing is in common.
      const end = shown === images ? BLOCK_TOKENS : Math.min(firstImageToken(shown), firstImageToken(images));
      let common = 0;
      while (common < end && this.#tokens[base + common] === tokens[offset + common]) common += 1;
      most = Math.max(most, common);
      link = this.#following[link - 1] as number;
    }
    return most;
  }

  /** Whether another salt that begins like this one, up to `:`, has the first `count` blocks of these tokens. */
  isElsewhere(
    salt: string,
    tokens: Int32Array,
    count: number,
    imagesAt: (offset: number) => string = () => '',
  ): boolean {
    const kin = salt.slice(0, salt.indexOf(':') + 1);
    const others = this.#salts.slice(-MOST_SALTS - 1).filter((one) => one !== salt && one.startsWith(kin));
    return others.some((other) => {
      let node: PrefixNode | undefined = this.root(other);
      for (let at = 0; at < count * BLOCK_TOKENS && node !== undefined; at += BLOCK_TOKENS) {
        node = this.find(node, tokens, at, imagesAt(at));
      }
      return node !== undefined;
    });
  }

  /** Whether the cached block is the one for these tokens and images after this parent. */
  holds(block: number, parent: PrefixNode, tokens: Int32Array, offset: number, images = ''): boolean {
    if (this.#parents[block] !== parent || this.#imagesOf(block) !== images) return false;
    const base = block * BLOCK_TOKENS;
    for (let i = 0; i < BLOCK_TOKENS; i++) {
      if (this.#tokens[base + i] !== tokens[offset + i]) return false;
    }
    return true;
  }

  /** Whether cached blocks go on from this one. */
  hasChildren(block: number): boolean {
    return this.#children[block] !== 0;
  }

  parentOf(block: number): PrefixNode {
    return this.#parents[block] as number;
  }

  /** What a cached block was inserted with: its tokens are a view. */
  contentOf(block: number): {
    readonly parent: PrefixNode;
    readonly tokens: Int32Array;
    readonly images: string;
  } {
    const base = block * BLOCK_TOKENS;
    return {
      parent: this.parentOf(block),
      tokens: this.#tokens.subarray(base, base + BLOCK_TOKENS),
      images: this.#imagesOf(block),
    };
  }

  /** The salt of a root. */
  saltAt(root: PrefixNode): string {
    return this.#salts[-1 - root] as string;
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

  /** Of a root; of a block it is not needed. */
  #saltOf(parent: PrefixNode): string {
    return parent >= 0 ? '' : (this.#salts[-1 - parent] as string);
  }

  #firstChild(parent: PrefixNode): number {
    return parent >= 0 ? (this.#children[parent] as number) : (this.#rootChildren[-1 - parent] ?? 0);
  }

  #setFirstChild(parent: PrefixNode, link: number): void {
    if (parent >= 0) this.#children[parent] = link;
    else this.#rootChildren[-1 - parent] = link;
  }

  #joinSiblings(block: number, parent: PrefixNode): void {
    const first = this.#firstChild(parent);
    this.#following[block] = first;
    this.#preceding[block] = 0;
    if (first !== 0) this.#preceding[first - 1] = block + 1;
    this.#setFirstChild(parent, block + 1);
  }

  #leaveSiblings(block: number): void {
    const before = this.#preceding[block] as number;
    const after = this.#following[block] as number;
    if (after !== 0) this.#preceding[after - 1] = before;
    if (before !== 0) this.#following[before - 1] = after;
    else this.#setFirstChild(this.#parents[block] as number, after);
  }

  #imagesOf(block: number): string {
    return this.#images.get(block) ?? '';
  }

  #bucket(hash: number): number {
    return Math.imul(hash, 0x9e3779b1) >>> this.#bucketShift;
  }

  #hash(parent: PrefixNode, tokens: Int32Array, offset: number, images: string): number {
    const seed = parent >= 0 ? (this.#hashes[parent] as number) : Math.imul(parent, 0x9e3779b1);
    let hash = chainKey(seed, tokens, offset, offset + BLOCK_TOKENS);
    for (let i = 0; i < images.length; i++) hash = turn(hash, images.charCodeAt(i));
    return hash;
  }
}

/** The key of a prefix, going on from the key of the prefix before it. */
export function chainKey(seed: number, tokens: Int32Array, start: number, end: number): number {
  let key = seed;
  for (let i = start; i < end; i++) key = turn(key, tokens[i] as number);
  return key;
}

function turn(key: number, value: number): number {
  const product = Math.imul(key ^ value, 0x85ebca6b);
  return product ^ (product >>> 15);
}
