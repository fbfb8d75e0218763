// KV blocks in float32. A block has memory from its first use until it is released.

import type { CacheSpec, ModelSpec } from '../../model/spec.ts';
import { BLOCK_TOKENS } from '../backend.ts';

/**
 * Keys and values of one block in one store: [token in block][head][value]. Values that are a part of keys share their memory.
 */
interface StoreBlock {
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

/** The keys and values of one attention. Slots number tokens over all blocks. */
export interface KvStore extends CacheSpec {
  blockOf(slot: number): StoreBlock;
  /** Without `values` where those are a part of the keys. */
  write(slots: Int32Array, keys: Float32Array, values?: Float32Array): void;
}

const rowSizeOf = ({ headCount, headSize }: CacheSpec): number => headCount * headSize;

const hasValues = ({ valuesInKeys }: CacheSpec): boolean => valuesInKeys === undefined;

export function blockBytes({ caches }: Pick<ModelSpec, 'caches'>): number {
  const values = caches.reduce((sum, cache) => sum + (hasValues(cache) ? 2 : 1) * rowSizeOf(cache), 0);
  return BLOCK_TOKENS * values * Float32Array.BYTES_PER_ELEMENT;
}

export class KvCache {
  readonly #blocks: (StoreBlock[] | undefined)[];
  readonly #caches: readonly CacheSpec[];

  constructor({ caches }: Pick<ModelSpec, 'caches'>, blockCount: number) {
    this.#caches = caches;
    this.#blocks = Array.from({ length: blockCount });
  }

  store(index: number): KvStore {
    const cache = this.#caches[index] as CacheSpec;
    const blockOf = (slot: number): StoreBlock => {
      const block = this.#blocks[Math.floor(slot / BLOCK_TOKENS)]?.[index];
      if (block === undefined) throw new Error(`slot ${slot} is in a block that holds nothing`);
      return block;
    };
    return {
      ...cache,
      blockOf,
      write: (slots, keys, values) => {
        const rowSize = rowSizeOf(cache);
        for (const [row, slot] of slots.entries()) {
          this.#commit(Math.floor(slot / BLOCK_TOKENS));
          const block = blockOf(slot);
          const at = (slot % BLOCK_TOKENS) * rowSize;
          block.keys.set(keys.subarray(row * rowSize, (row + 1) * rowSize), at);
          if (values !== undefined) block.values.set(values.subarray(row * rowSize, (row + 1) * rowSize), at);
        }
      },
    };
  }

  /** Keys and values of a block in all stores, those that share memory once. The block has memory from now on. */
  partsOf(block: number): Float32Array[] {
    this.#commit(block);
    return (this.#blocks[block] as StoreBlock[]).flatMap(({ keys, values }) =>
      values === keys ? [keys] : [keys, values],
    );
  }

  release(blocks: Int32Array): void {
    for (const block of blocks) this.#blocks[block] = undefined;
  }

  #commit(block: number): void {
    this.#blocks[block] ??= this.#caches.map((cache) => {
      const keys = new Float32Array(BLOCK_TOKENS * rowSizeOf(cache));
      return { keys, values: hasValues(cache) ? new Float32Array(keys.length) : keys };
    });
  }
}
