// Keys and values of past tokens in physical blocks, kept in float32. A token's row within a block holds all
// its heads: [block][token in block][head][value].

import { BLOCK_TOKENS } from '../backend.ts';

/** The keys and values of one layer. */
export interface KvLayer {
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

export function createKvLayer(blockCount: number, rowSize: number): KvLayer {
  const length = blockCount * BLOCK_TOKENS * rowSize;
  return { keys: new Float32Array(length), values: new Float32Array(length) };
}

/** Stores each batch row's keys and values in its slot: the number of a token's place among all blocks. */
export function storeRows(layer: KvLayer, slots: Int32Array, keys: Float32Array, values: Float32Array): void {
  const rowSize = keys.length / slots.length;
  for (const [row, slot] of slots.entries()) {
    layer.keys.set(keys.subarray(row * rowSize, (row + 1) * rowSize), slot * rowSize);
    layer.values.set(values.subarray(row * rowSize, (row + 1) * rowSize), slot * rowSize);
  }
}
