// KV blocks in float32. A block has memory from its first use until it is released.

import type { CacheSpec, ModelSpec } from '../../model/spec.ts';
import { keptStateSize } from '../../model/spec-walk.ts';
import { BLOCK_TOKENS, KEPT_STATES } from '../backend.ts';

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

export function blockBytes(spec: ModelSpec): number {
  const values = spec.caches.reduce((sum, cache) => sum + (hasValues(cache) ? 2 : 1) * rowSizeOf(cache), 0);
  const states = KEPT_STATES * keptStateSize(spec);
  return (BLOCK_TOKENS * values + states) * Float32Array.BYTES_PER_ELEMENT;
}

/** What a block holds. */
interface KvBlock {
  readonly stores: readonly StoreBlock[];
  /** States of its last positions, for an MTP head: of position p at p % KEPT_STATES. Empty without one. */
  readonly states: Float32Array;
}

export class KvCache {
  readonly #blocks: (KvBlock | undefined)[];
  readonly #caches: readonly CacheSpec[];
  readonly #stateSize: number;

  constructor(spec: ModelSpec, blockCount: number) {
    this.#caches = spec.caches;
    this.#stateSize = keptStateSize(spec);
    this.#blocks = Array.from({ length: blockCount });
  }

  store(index: number): KvStore {
    const cache = this.#caches[index] as CacheSpec;
    const blockOf = (slot: number): StoreBlock => {
      const block = this.#blocks[Math.floor(slot / BLOCK_TOKENS)]?.stores[index];
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

  /** The state of a token, by its slot. The block has memory from now on. */
  state(slot: number): Float32Array {
    const { states } = this.#commit(Math.floor(slot / BLOCK_TOKENS));
    const at = (slot % KEPT_STATES) * this.#stateSize;
    return states.subarray(at, at + this.#stateSize);
  }

  /** All that a block holds, what shares memory once. The block has memory from now on. */
  partsOf(block: number): Float32Array[] {
    const { stores, states } = this.#commit(block);
    const parts = stores.flatMap(({ keys, values }) => (values === keys ? [keys] : [keys, values]));
    return [...parts, states];
  }

  release(blocks: Int32Array): void {
    for (const block of blocks) this.#blocks[block] = undefined;
  }

  #commit(block: number): KvBlock {
    const committed = this.#blocks[block] ?? {
      stores: this.#caches.map((cache) => {
        const keys = new Float32Array(BLOCK_TOKENS * rowSizeOf(cache));
        return { keys, values: hasValues(cache) ? new Float32Array(keys.length) : keys };
      }),
      states: new Float32Array(KEPT_STATES * this.#stateSize),
    };
    this.#blocks[block] = committed;
    return committed;
  }
}
