// The prefix keys of a prompt, as far as a worker could reuse its blocks. The chain is the engine's:
// engine/cache/prefix-key.ts.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockImages } from '../../engine/cache/block-images.ts';
import { KEY_LANES, writeBlockKey, writeRootKey } from '../../engine/cache/prefix-key.ts';

interface KeyedPrompt {
  readonly modelKey: string;
  /** The sequences' salt: the adapter, and the tenant where tenants are separated. */
  readonly salt: string;
  /** The prompt and what was generated already, where a request continues on another worker. */
  readonly tokens: Int32Array;
  /** Where the prompt shows any. */
  readonly images?: BlockImages | undefined;
  /** The first row that must be computed whatever is cached. Default: the last one. */
  readonly firstRequiredPosition?: number;
}

/** Whole blocks before the first row that must be computed: a prompt that ends with a block computes that block. */
export function reusableBlocks(length: number, firstRequiredPosition = length - 1): number {
  return Math.max(0, Math.floor(Math.min(firstRequiredPosition, length - 1) / BLOCK_TOKENS));
}

/** Two numbers for each key. */
export function promptKeys({
  modelKey,
  salt,
  tokens,
  images,
  firstRequiredPosition,
}: KeyedPrompt): Int32Array {
  const count = reusableBlocks(tokens.length, firstRequiredPosition);
  const chain = new Int32Array((count + 1) * KEY_LANES);
  writeRootKey(modelKey, salt, chain, 0);
  for (let block = 0; block < count; block++) {
    const parentAt = block * KEY_LANES;
    const offset = block * BLOCK_TOKENS;
    writeBlockKey(chain, parentAt, tokens, offset, chain, parentAt + KEY_LANES, images?.at(offset));
  }
  return chain.subarray(KEY_LANES);
}
