// Which blocks count for accounts that may hold a part of the cache only. A block counts for the account that took it to compute
// it, while it is referenced or cached, whichever others use it. What each account has cached and nobody references is listed, least
// recently used first. O(1) a change; accounts without a limit are unknown here.

export interface BlockOwner {
  readonly number: number;
  readonly account: string;
  /** Blocks that count for it. */
  held: number;
  /** Those of them that are cached and that nobody references. */
  evictable: number;
  /** Sequences of it that run. */
  running: number;
  /** Ends of the list of evictable blocks, as block + 1. */
  first: number;
  last: number;
}

export class BlockOwners {
  // Numbers of owners, and links as block + 1, so that zeroed memory says nothing.
  readonly #ownerOf: Int32Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #byAccount = new Map<string, BlockOwner>();
  readonly #byNumber = new Map<number, BlockOwner>();
  #numbers = 0;

  constructor(blockCount: number) {
    this.#ownerOf = new Int32Array(blockCount);
    this.#next = new Int32Array(blockCount);
    this.#previous = new Int32Array(blockCount);
  }

  [Symbol.iterator](): Iterator<BlockOwner> {
    return this.#byAccount.values();
  }

  of(account: string): BlockOwner | undefined {
    return this.#byAccount.get(account);
  }

  ownerOf(block: number): BlockOwner | undefined {
    const number = this.#ownerOf[block] as number;
    return number === 0 ? undefined : this.#byNumber.get(number);
  }

  started(account: string): void {
    let owner = this.#byAccount.get(account);
    if (owner === undefined) {
      this.#numbers += 1;
      owner = { number: this.#numbers, account, held: 0, evictable: 0, running: 0, first: 0, last: 0 };
      this.#byAccount.set(account, owner);
      this.#byNumber.set(owner.number, owner);
    }
    owner.running += 1;
  }

  stopped(account: string): void {
    const owner = this.#byAccount.get(account) as BlockOwner;
    owner.running -= 1;
    this.#forgetIfGone(owner);
  }

  /** The block counts for the account from now on. */
  taken(block: number, owner: BlockOwner): void {
    this.#ownerOf[block] = owner.number;
    owner.held += 1;
  }

  /** The block counts for nobody any more. */
  left(block: number, wasEvictable: boolean): void {
    const owner = this.ownerOf(block);
    if (owner === undefined) return;
    if (wasEvictable) this.#unlist(block, owner);
    this.#ownerOf[block] = 0;
    owner.held -= 1;
    this.#forgetIfGone(owner);
  }

  /** The block is cached, and nobody references it any more. */
  rested(block: number): void {
    const owner = this.ownerOf(block);
    if (owner === undefined) return;
    this.#previous[block] = owner.last;
    this.#next[block] = 0;
    if (owner.last === 0) owner.first = block + 1;
    else this.#next[owner.last - 1] = block + 1;
    owner.last = block + 1;
    owner.evictable += 1;
  }

  /** Somebody references the cached block again. */
  revived(block: number): void {
    const owner = this.ownerOf(block);
    if (owner !== undefined) this.#unlist(block, owner);
  }

  /** The account's evictable blocks in the order in which they would go. O(list): for checks. */
  *evictableOf({ first }: BlockOwner): Generator<number> {
    for (let link = first; link !== 0; link = this.#next[link - 1] as number) yield link - 1;
  }

  #unlist(block: number, owner: BlockOwner): void {
    const before = this.#previous[block] as number;
    const after = this.#next[block] as number;
    if (before === 0) owner.first = after;
    else this.#next[before - 1] = after;
    if (after === 0) owner.last = before;
    else this.#previous[after - 1] = before;
    owner.evictable -= 1;
  }

  #forgetIfGone({ account, number, held, running }: BlockOwner): void {
    if (held > 0 || running > 0) return;
    this.#byAccount.delete(account);
    this.#byNumber.delete(number);
  }
}
