// How much memory a model gets: its weights, and K/V blocks from what the budget leaves.

import { BLOCK_TOKENS, type KvType } from '../compute/backend.ts';
import { loadAddon } from '../compute/cpu/binding.ts';
import { fileMatrixBytes, kvBlockBytes, weightBytes } from '../compute/memory.ts';
import { poolBlockCount } from '../engine/cache/pool-size.ts';
import type { LocalModel } from './local-model.ts';

/** Without a wish, K/V for this many full contexts, */
const DEFAULT_CONTEXTS = 32;
/** at most this share of the memory that is left beside the weights, */
const DEFAULT_SHARE = 0.5;
/** but room for one sequence of this many tokens at least. */
const LEAST_TOKENS = 2048;

export interface ModelMemory {
  readonly weightBytes: number;
  readonly blockCount: number;
  readonly totalBytes: number;
}

export interface KvWish {
  readonly kvType: KvType;
  readonly blocks?: number;
  readonly bytes?: number;
}

export function planMemory({ spec, files }: LocalModel, budgetBytes: number, wish: KvWish): ModelMemory {
  const load = loadAddon();
  const matrixBytes = load.available ? load.addon.matrixBytes : fileMatrixBytes;
  const weights = weightBytes(spec, files.weights, matrixBytes);
  const bytesPerBlock = kvBlockBytes(spec, wish.kvType);
  const blockCount = wishedBlocks(wish, bytesPerBlock) ?? defaultBlocks();
  return { weightBytes: weights, blockCount, totalBytes: weights + blockCount * bytesPerBlock };

  function defaultBlocks(): number {
    const contextBlocks = Math.ceil(spec.contextLength / BLOCK_TOKENS);
    const affordable = Math.floor((DEFAULT_SHARE * (budgetBytes - weights)) / bytesPerBlock);
    const least = Math.min(contextBlocks, LEAST_TOKENS / BLOCK_TOKENS);
    return Math.max(least, Math.min(DEFAULT_CONTEXTS * contextBlocks, affordable));
  }
}

function wishedBlocks({ blocks, bytes }: KvWish, bytesPerBlock: number): number | undefined {
  if (blocks !== undefined) return poolBlockCount({ kind: 'blocks', count: blocks });
  return bytes === undefined ? undefined : poolBlockCount({ kind: 'memory', bytes, bytesPerBlock });
}
