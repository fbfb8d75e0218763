// Which workers of a model hold which prefix keys. Enter and leave are O(1); a chain of keys is walked once for all workers.
// Memory is bounded: the least recently used keys are evicted first, and workers then only seem to hold less. What is known of
// a worker is a part with a number. A closed part counts for nothing; its bits are cleared a few entries at a time as others
// enter, and then its number is free again.

import { KEY_LANES } from '../../engine/cache/prefix-key.ts';
import { HolderSets, lowestBit } from './holder-sets.ts';

/** Six numbers an entry, and its bucket. */
export const ENTRY_BYTES = 28;
export const DEFAULT_MAX_ENTRIES = 2 ** 22;
const MOST_ENTRIES = 2 ** 28;
/** Memory grows with what is held: many models have few prefixes. */
const FIRST_ENTRIES = 2 ** 10;
/** Two part numbers fit in an entry, each plus one, so that 0 means none. */
const PART_BITS = 15;
const PART_MASK = 2 ** PART_BITS - 1;
const MOST_PARTS = PART_MASK - 1;
/** Owner of a tier's part. */
const NO_WORKER = -1;
/** Entries cleared of closed parts at each enter or leave. */
const CLEANED_AT_ONCE = 8;

/** Valid until the next walk. */
interface PrefixMatch {
  readonly count: number;
  readonly workers: Int32Array;
  /** Leading blocks each of them holds, at least one. */
  readonly blocks: Int32Array;
}

export class PrefixIndex {
  readonly #maxBytes: number;
  readonly #maxEntries: number;
  /** Entries there is memory for. */
  #room: number;
  // Entry numbers start at 1: zeroed memory is an empty table.
  #buckets = new Int32Array(0);
  #bucketMask = 0;
  #highs = new Int32Array(0);
  #lows = new Int32Array(0);
  /** 0: free. Positive: one or two parts. Negative: the complement of a set's number. */
  #holders = new Int32Array(0);
  #links = new Int32Array(0);
  // A ring in order of use, closed by entry 0: after it the newest, before it the oldest.
  #older = new Int32Array(0);
  #newer = new Int32Array(0);
  readonly #sets = new HolderSets();
  #size = 0;
  #highest = 0;
  #firstFree = 0;
  #forgotten = 0;

  #owners: number[] = [];
  #open = new Int32Array(2);
  /** Of the open parts, those of workers: a walk reports these alone. */
  #walked = new Int32Array(2);
  readonly #freeParts: number[] = [];
  /** Closed before the current sweep began; later ones wait for the next. */
  #sweeping: number[] = [];
  #closed: number[] = [];
  #cursor = 0;

  #path = new Int32Array(64);
  #alive = new Int32Array(2);
  /** Leading blocks of the last walk that somebody holds. */
  #known = 0;
  #matched = { count: 0, workers: new Int32Array(64), blocks: new Int32Array(64) };

  constructor(maxEntries = DEFAULT_MAX_ENTRIES) {
    if (!Number.isInteger(maxEntries) || maxEntries < 1 || maxEntries > MOST_ENTRIES) {
      throw new RangeError(`an index has between 1 and ${MOST_ENTRIES} entries, not ${maxEntries}`);
    }
    this.#maxEntries = maxEntries;
    this.#maxBytes = maxEntries * ENTRY_BYTES;
    this.#room = Math.min(maxEntries, FIRST_ENTRIES);
    this.#resize();
  }

  /** Includes closed parts until they are cleared. */
  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#size * ENTRY_BYTES + this.#sets.size * this.#sets.setBytes;
  }

  /** Keys evicted since the start. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /** Undefined where there are too many parts. Without a worker it is of a tier, which `holds` asks about. */
  openPart(worker?: number): number | undefined {
    const part = this.#freeParts.pop() ?? this.#owners.length;
    if (part >= MOST_PARTS) return undefined;
    this.#owners[part] = worker ?? NO_WORKER;
    this.#sets.widen(part + 1);
    if (this.#open.length < this.#sets.words) {
      this.#open = widened(this.#open, this.#sets.words);
      this.#walked = widened(this.#walked, this.#sets.words);
      this.#alive = new Int32Array(this.#sets.words);
    }
    setBit(this.#open, part);
    if (worker !== undefined) setBit(this.#walked, part);
    return part;
  }

  /** O(1). */
  closePart(part: number): void {
    clearBit(this.#open, part);
    clearBit(this.#walked, part);
    this.#closed.push(part);
  }

  enter(part: number, high: number, low: number): void {
    this.#clean();
    const bucket = this.#bucketOf(high, low);
    let entry = this.#find(bucket, high, low);
    if (entry === 0) {
      entry = this.#insert(high, low);
      this.#holders[entry] = part + 1;
    } else {
      this.#addHolder(entry, part);
      this.#unlink(entry);
    }
    this.#linkNewest(entry);
    while (this.bytes > this.#maxBytes && this.#size > 1) this.#forgetOldest();
  }

  leave(part: number, high: number, low: number): void {
    this.#clean();
    const entry = this.#find(this.#bucketOf(high, low), high, low);
    if (entry === 0) return;
    this.#removeHolder(entry, part);
    if (this.#holders[entry] === 0) this.#delete(entry);
  }

  /**
   * Walks the chain until no worker has the next block, and marks it as used, parents more recently than children. With `beyond`
   * it goes on to the first block that nobody holds, worker or tier.
   */
  match(keys: Int32Array, beyond = false): PrefixMatch {
    const match = this.#matched;
    match.count = 0;
    const chain = keys.length / KEY_LANES;
    if (this.#path.length < chain) this.#path = new Int32Array(2 * chain);
    const alive = this.#alive;
    alive.set(this.#walked);
    let depth = 0;
    for (; depth < chain; depth++) {
      const high = keys[depth * KEY_LANES] as number;
      const low = keys[depth * KEY_LANES + 1] as number;
      const entry = this.#find(this.#bucketOf(high, low), high, low);
      if (entry === 0) break;
      this.#path[depth] = entry;
      if (!this.#keepHolders(entry, depth)) break;
    }
    this.#known = beyond ? this.#walkOn(keys, depth) : depth;
    for (let word = 0; word < alive.length; word++) this.#report(word, alive[word] as number, depth);
    for (let i = this.#known - 1; i >= 0; i--) {
      this.#unlink(this.#path[i] as number);
      this.#linkNewest(this.#path[i] as number);
    }
    return match;
  }

  /** Leading blocks of the last walk that are held at all. */
  get known(): number {
    return this.#known;
  }

  /** Whether a part has a block of the last walk, one of the `known`. */
  holds(part: number, block: number): boolean {
    const holders = this.#holders[this.#path[block] as number] as number;
    if (holders >= 0) return (holders & PART_MASK) === part + 1 || holders >>> PART_BITS === part + 1;
    const word = this.#sets.chunkOf(~holders)[this.#sets.rowOf(~holders) + 1 + (part >>> 5)] as number;
    return (word & (1 << (part & 31))) !== 0;
  }

  #walkOn(keys: Int32Array, from: number): number {
    const chain = keys.length / KEY_LANES;
    let depth = from;
    for (; depth < chain; depth++) {
      const [high, low] = [keys[depth * KEY_LANES] as number, keys[depth * KEY_LANES + 1] as number];
      const entry = this.#find(this.#bucketOf(high, low), high, low);
      if (entry === 0) break;
      this.#path[depth] = entry;
    }
    return depth;
  }

  /** Keeps the holders of the entry, reports the others with `depth` blocks, and returns whether any is left. */
  #keepHolders(entry: number, depth: number): boolean {
    const holders = this.#holders[entry] as number;
    const alive = this.#alive;
    const chunk = holders < 0 ? this.#sets.chunkOf(~holders) : undefined;
    const row = holders < 0 ? this.#sets.rowOf(~holders) + 1 : 0;
    const first = (holders & PART_MASK) - 1;
    const second = (holders >>> PART_BITS) - 1;
    let any = 0;
    for (let word = 0; word < alive.length; word++) {
      const before = alive[word] as number;
      if (before === 0) continue;
      const held =
        chunk === undefined ? bitIn(word, first) | bitIn(word, second) : (chunk[row + word] as number);
      const kept = before & held;
      if (kept !== before) this.#report(word, before & ~held, depth);
      alive[word] = kept;
      any |= kept;
    }
    return any !== 0;
  }

  #report(word: number, bits: number, depth: number): void {
    if (depth === 0) return;
    const match = this.#matched;
    for (let left = bits; left !== 0; left &= left - 1) {
      if (match.count === match.workers.length) this.#growMatch();
      match.workers[match.count] = this.#owners[32 * word + lowestBit(left)] as number;
      match.blocks[match.count] = depth;
      match.count += 1;
    }
  }

  #growMatch(): void {
    const { workers, blocks } = this.#matched;
    this.#matched.workers = new Int32Array(2 * workers.length);
    this.#matched.workers.set(workers);
    this.#matched.blocks = new Int32Array(2 * blocks.length);
    this.#matched.blocks.set(blocks);
  }

  #addHolder(entry: number, part: number): void {
    const holders = this.#holders[entry] as number;
    if (holders < 0) {
      this.#sets.add(~holders, part);
      return;
    }
    const first = (holders & PART_MASK) - 1;
    const second = (holders >>> PART_BITS) - 1;
    if (first === part || second === part) return;
    if (second < 0) {
      this.#holders[entry] = holders | ((part + 1) << PART_BITS);
      return;
    }
    const set = this.#sets.make();
    this.#sets.add(set, first);
    this.#sets.add(set, second);
    this.#sets.add(set, part);
    this.#holders[entry] = ~set;
  }

  #removeHolder(entry: number, part: number): void {
    const holders = this.#holders[entry] as number;
    if (holders < 0) {
      this.#sets.remove(~holders, part);
      this.#shrink(entry);
      return;
    }
    const first = (holders & PART_MASK) - 1;
    const second = (holders >>> PART_BITS) - 1;
    if (first === part) this.#holders[entry] = second + 1;
    else if (second === part) this.#holders[entry] = first + 1;
  }

  /** A set of one or none goes back into its entry. */
  #shrink(entry: number): void {
    const set = ~(this.#holders[entry] as number);
    const count = this.#sets.count(set);
    if (count > 1) return;
    this.#holders[entry] = count === 0 ? 0 : this.#sets.first(set) + 1;
    this.#sets.drop(set);
  }

  #clean(): void {
    if (this.#sweeping.length === 0) {
      if (this.#closed.length === 0) return;
      [this.#sweeping, this.#closed] = [this.#closed, []];
      this.#cursor = 0;
    }
    const end = Math.min(this.#highest, this.#cursor + CLEANED_AT_ONCE);
    while (this.#cursor < end) {
      this.#cursor += 1;
      this.#cleanEntry(this.#cursor);
    }
    if (this.#cursor < this.#highest) return;
    this.#freeParts.push(...this.#sweeping);
    this.#sweeping = [];
  }

  #cleanEntry(entry: number): void {
    const holders = this.#holders[entry] as number;
    if (holders === 0) return;
    if (holders < 0) {
      this.#sets.keepOnly(~holders, this.#open);
      this.#shrink(entry);
    } else {
      const first = (holders & PART_MASK) - 1;
      const second = (holders >>> PART_BITS) - 1;
      if (second >= 0 && !this.#isOpen(second)) this.#removeHolder(entry, second);
      if (!this.#isOpen(first)) this.#removeHolder(entry, first);
    }
    if (this.#holders[entry] === 0) this.#delete(entry);
  }

  #isOpen(part: number): boolean {
    return ((this.#open[part >>> 5] as number) & (1 << (part & 31))) !== 0;
  }

  #bucketOf(high: number, low: number): number {
    return (high ^ low) & this.#bucketMask;
  }

  #find(bucket: number, high: number, low: number): number {
    let entry = this.#buckets[bucket] as number;
    while (entry !== 0 && (this.#highs[entry] !== high || this.#lows[entry] !== low)) {
      entry = this.#links[entry] as number;
    }
    return entry;
  }

  #insert(high: number, low: number): number {
    if (this.#size === this.#maxEntries) this.#forgetOldest();
    let entry = this.#firstFree;
    if (entry !== 0) {
      this.#firstFree = this.#links[entry] as number;
    } else {
      if (this.#highest === this.#room) this.#grow();
      this.#highest += 1;
      entry = this.#highest;
    }
    this.#highs[entry] = high;
    this.#lows[entry] = low;
    this.#linkInBucket(entry);
    this.#size += 1;
    return entry;
  }

  #linkInBucket(entry: number): void {
    const bucket = this.#bucketOf(this.#highs[entry] as number, this.#lows[entry] as number);
    this.#links[entry] = this.#buckets[bucket] as number;
    this.#buckets[bucket] = entry;
  }

  /** Called where no entry is free: each is in a bucket. */
  #grow(): void {
    this.#room = Math.min(this.#maxEntries, 2 * this.#room);
    this.#resize();
    for (let entry = 1; entry <= this.#highest; entry++) this.#linkInBucket(entry);
  }

  #resize(): void {
    const column = (before: Int32Array) => {
      const after = new Int32Array(this.#room + 1);
      after.set(before);
      return after;
    };
    this.#bucketMask = 2 ** Math.ceil(Math.log2(this.#room)) - 1;
    this.#buckets = new Int32Array(this.#bucketMask + 1);
    this.#highs = column(this.#highs);
    this.#lows = column(this.#lows);
    this.#holders = column(this.#holders);
    this.#links = column(this.#links);
    this.#older = column(this.#older);
    this.#newer = column(this.#newer);
  }

  #forgetOldest(): void {
    const oldest = this.#newer[0] as number;
    const holders = this.#holders[oldest] as number;
    if (holders < 0) this.#sets.drop(~holders);
    this.#delete(oldest);
    this.#forgotten += 1;
  }

  /** Precondition: no set belongs to it. */
  #delete(entry: number): void {
    const bucket = this.#bucketOf(this.#highs[entry] as number, this.#lows[entry] as number);
    const following = this.#links[entry] as number;
    if (this.#buckets[bucket] === entry) {
      this.#buckets[bucket] = following;
    } else {
      let before = this.#buckets[bucket] as number;
      while (this.#links[before] !== entry) before = this.#links[before] as number;
      this.#links[before] = following;
    }
    this.#unlink(entry);
    this.#holders[entry] = 0;
    this.#links[entry] = this.#firstFree;
    this.#firstFree = entry;
    this.#size -= 1;
  }

  #linkNewest(entry: number): void {
    const newest = this.#older[0] as number;
    this.#older[entry] = newest;
    this.#newer[entry] = 0;
    this.#newer[newest] = entry;
    this.#older[0] = entry;
  }

  #unlink(entry: number): void {
    const older = this.#older[entry] as number;
    const newer = this.#newer[entry] as number;
    this.#newer[older] = newer;
    this.#older[newer] = older;
  }
}

function widened(bits: Int32Array<ArrayBuffer>, words: number): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(words);
  wider.set(bits);
  return wider;
}

function setBit(bits: Int32Array, part: number): void {
  bits[part >>> 5] = (bits[part >>> 5] as number) | (1 << (part & 31));
}

function clearBit(bits: Int32Array, part: number): void {
  bits[part >>> 5] = (bits[part >>> 5] as number) & ~(1 << (part & 31));
}

function bitIn(word: number, part: number): number {
  return part >>> 5 === word ? 1 << (part & 31) : 0;
}
