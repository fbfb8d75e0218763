// What the cache needs to know of a sequence.

export interface BlockHolder {
  readonly id: string;
  /** Number of tokens; `storage` may be longer. */
  readonly length: number;
  readonly storage: Int32Array;
  /** The first position whose row must be computed, though its K/V may be cached. */
  readonly neededFrom: number;
  /** Blocks are shared only between holders of the same salt. */
  readonly salt: string;
  /** What only LOW sequences wrote is evicted before anything else. */
  readonly low: boolean;
  /** Physical blocks: position p lives in row `p % 32` of block `blocks[p / 32]`. */
  readonly blocks: number[];
  /** Tokens whose K/V lie in the blocks. */
  computed: number;
}
