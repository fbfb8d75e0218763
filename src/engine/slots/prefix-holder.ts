// A prefix of whole blocks as the cache takes sequences: looked up, given blocks, published. Nothing of it is computed.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockHolder, RecurrentState } from '../cache/block-holder.ts';

/** What a request has left in the prefix cache. */
export interface SlotPrefix {
  /** Of the sequence: `adapter:tenant`, or `adapter:tenant:more`. */
  readonly salt: string;
  /** Of whole blocks. */
  readonly tokens: Int32Array;
  /** What the block that begins at a position shows; see BlockImages. */
  readonly imagesAt: (offset: number) => string;
}

interface HolderOwner {
  readonly account?: string;
  readonly kvShare?: number | undefined;
}

export class PrefixHolder implements BlockHolder {
  readonly id: string;
  readonly salt: string;
  readonly storage: Int32Array;
  readonly account: string;
  readonly kvShare: number | undefined;
  readonly low = false;
  readonly blocks: number[] = [];
  readonly images: BlockHolder['images'];
  computed = 0;
  recurrent: RecurrentState | undefined;

  constructor(
    id: string,
    { salt, tokens, imagesAt }: SlotPrefix,
    { account = '', kvShare }: HolderOwner = {},
  ) {
    this.id = id;
    this.salt = salt;
    this.storage = tokens;
    this.account = account;
    this.kvShare = kvShare;
    this.images = { blocks: { at: imagesAt } };
  }

  /** With the token that would follow: sequences have one to compute. */
  get length(): number {
    return this.storage.length + 1;
  }

  get firstRequiredPosition(): number {
    return this.storage.length;
  }

  get blockCount(): number {
    return this.storage.length / BLOCK_TOKENS;
  }
}
