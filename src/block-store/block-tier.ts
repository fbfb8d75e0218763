// What a tier of KV blocks below an engine's memory does, wherever it keeps them. It knows keys and bytes, no tokens.

/**
 * 32 bytes: the hash of the parent's key (or of salt, model, KV type and version of the arithmetic at the root), the block's
 * tokens and what its images show. The state of recurrent layers at a checkpoint is a block, too, told apart by its key.
 */
export type BlockKey = Uint8Array;

export const BLOCK_KEY_BYTES = 32;

/** What others know a block by: 64 bits of whatever they agree on. All zeros are no label. */
export interface BlockLabel {
  readonly high: number;
  readonly low: number;
}

/** Called with labels of blocks as these come to be found, and are not found any more. */
export interface LabelListener {
  entered(label: BlockLabel): void;
  left(label: BlockLabel): void;
}

/** Leading blocks of a chain that a tier has. */
export interface FoundBlocks {
  readonly blocks: number;
  /** Of all of them together. */
  readonly bytes: number;
}

export interface BlockTierStats {
  readonly blocks: number;
  /** Of the blocks that can be found. */
  readonly bytes: number;
  /** Blocks that were read whole, and those that were wanted and were not. */
  readonly hits: number;
  readonly misses: number;
  /** Of the misses: their bytes were not those that were written. */
  readonly damaged: number;
  readonly written: number;
  /** Not written: too slow, full or broken. */
  readonly dropped: number;
  /** Removed for room or age. */
  readonly evicted: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  /** Time in which at least one block was being read, and in which one was being written: bytes over it are the tier's speed. */
  readonly readMs: number;
  readonly writeMs: number;
  /** Given to be written and not yet written. */
  readonly queuedBytes: number;
}

export interface BlockTier {
  /** Equal where the same blocks are found, in whichever process and on whichever machine; undefined where that is unknown. */
  readonly holder: string | undefined;
  /** At once, from memory; leading blocks that can be read now. One that waits to be written cannot. */
  find(keys: readonly BlockKey[]): FoundBlocks;
  /**
   * Off the event loop, in large reads; in the order of the keys. Undefined for a block that cannot be had whole: unknown, damaged or
   * removed meanwhile. Rejects with the signal's reason where that is aborted before all are here. The buffers are the caller's, until it
   * gives them back.
   */
  read(keys: readonly BlockKey[], signal?: AbortSignal): Promise<(Uint8Array | undefined)[]>;
  /** Bytes that were read, and that the caller has no more use for: later reads take their memory, which spares the garbage collector. */
  giveBack(blocks: readonly Uint8Array[]): void;
  /**
   * Written behind; never blocks. False where the block was dropped; true also where it is here already. `tenant`: whose blocks
   * `remove` deletes together; '' where there are no keys. Parents before their children, where there is a choice: what is dropped or
   * lost is then the end of a chain.
   *
   * An array that is all of its ArrayBuffer is handed over: where true is returned the caller may find it detached. A part of a larger
   * buffer is copied; shared memory is read where it lies, and must not change until it is written.
   */
  write(key: BlockKey, tenant: string, bytes: Uint8Array, label?: BlockLabel): boolean;
  /** Deletes a tenant's blocks, those that wait to be written as well; how many there were. */
  remove(tenant: string): Promise<number>;
  /** Resolves once nothing waits to be written: there is room for more, and another process finds it all. */
  flush(): Promise<void>;
  stats(): BlockTierStats;
  /** Those that are here now have entered at once. One listener; undefined: none any more. */
  followLabels(listener: LabelListener | undefined): void;
  /** Writes what waits, unless the signal is aborted before: the rest is dropped then. */
  close(signal?: AbortSignal): Promise<void>;
}
