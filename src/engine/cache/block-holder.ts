// What the cache needs to know of a sequence.

import type { BlockImages } from './block-images.ts';

/** Of one sequence. */
export interface RecurrentState {
  /** With the state after the computed tokens, if there are any. */
  slot: number | undefined;
  /** What the step under way writes, the last for its end: states after `position` tokens of the sequence. */
  readonly written: { readonly position: number; readonly slot: number }[];
  /** Ends of blocks, as positions, after which others may want to go on. */
  readonly wantedCheckpoints: Set<number>;
  /** The checkpoint after its last full block. */
  lastCheckpoint: { readonly block: number; readonly slot: number } | undefined;
}

export interface BlockHolder {
  readonly id: string;
  /** Number of tokens; `storage` may be longer. */
  readonly length: number;
  readonly storage: Int32Array;
  /** The first position whose row must be computed, though its KV may be cached. */
  readonly firstRequiredPosition: number;
  /** Blocks are shared only between holders of the same salt. */
  readonly salt: string;
  readonly account: string;
  /** The part of the blocks that the account's sequences, running and cached, may hold together. Absent: no limit. */
  readonly kvShare: number | undefined;
  /** What only LOW sequences wrote is evicted before anything else. */
  readonly low: boolean;
  /** Physical blocks: position p lives in row `p % 32` of block `blocks[p / 32]`. */
  readonly blocks: number[];
  /** Tokens whose KV lie in the blocks. */
  computed: number;
  /** Where its prompt shows any. */
  readonly images?: { readonly blocks: Pick<BlockImages, 'at'> } | undefined;
  /** Where the model has recurrent layers. */
  recurrent?: RecurrentState | undefined;
}
