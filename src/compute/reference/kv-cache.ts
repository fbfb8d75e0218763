// Keys and values of past tokens in physical blocks, kept in float32. A block has memory from its first use until it is
// released.

import type { ModelSpec } from '../../model/spec.ts';
import { BLOCK_TOKENS } from '../backend.ts';

/** Keys and values of one block in one layer. A token's row holds all its heads: [token in block][head][value]. */
interface LayerBlock {
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

/** The keys and values of one layer. Slots number the places of tokens among all blocks. */
export interface KvLayer {
  /** The block of a slot that was written before. */
  blockOf(slot: number): LayerBlock;
  /** Stores each batch row's keys and values in its slot. */
  store(slots: Int32Array, keys: Float32Array, values: Float32Array): void;
}

type KvSizes = Pick<ModelSpec, 'kvHeadCount' | 'headSize' | 'layers'>;

const rowSizeOf = ({ kvHeadCount, headSize }: KvSizes): number => kvHeadCount * headSize;

/** What one block takes in all layers. */
export function blockBytes(spec: KvSizes): number {
  return spec.layers.length * 2 * BLOCK_TOKENS * rowSizeOf(spec) * Float32Array.BYTES_PER_ELEMENT;
}

export class KvCache {
  readonly #blocks: (LayerBlock[] | undefined)[];
  readonly #spec: KvSizes;

  constructor(spec: KvSizes, blockCount: number) {
    this.#spec = spec;
    this.#blocks = Array.from({ length: blockCount });
  }

  layer(index: number): KvLayer {
    const blockOf = (slot: number): LayerBlock => {
      const block = this.#blocks[Math.floor(slot / BLOCK_TOKENS)]?.[index];
      if (block === undefined) throw new Error(`slot ${slot} is in a block that holds nothing`);
      return block;
    };
    return {
      blockOf,
      store: (slots, keys, values) => {
        const rowSize = rowSizeOf(this.#spec);
        for (const [row, slot] of slots.entries()) {
          this.#commit(Math.floor(slot / BLOCK_TOKENS));
          const block = blockOf(slot);
          const at = (slot % BLOCK_TOKENS) * rowSize;
          block.keys.set(keys.subarray(row * rowSize, (row + 1) * rowSize), at);
          block.values.set(values.subarray(row * rowSize, (row + 1) * rowSize), at);
        }
      },
    };
  }

  release(blocks: Int32Array): void {
    for (const block of blocks) this.#blocks[block] = undefined;
  }

  #commit(block: number): void {
    const length = BLOCK_TOKENS * rowSizeOf(this.#spec);
    this.#blocks[block] ??= this.#spec.layers.map(() => ({
      keys: new Float32Array(length),
      values: new Float32Array(length),
    }));
  }
}
