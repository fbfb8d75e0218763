// The keys of a prompt, as far as a worker could reuse its blocks. The chain itself is the engine's: engine/cache/prefix-key.ts.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { KEY_LANES, writeBlockKey, writeRootKey } from '../../engine/cache/prefix-key.ts';

interface KeyedPrompt {
  readonly modelKey: string;
  /** As the sequences have it: with the adapter, and with the tenant where tenants are kept apart. */
  readonly salt: string;
  /** The prompt, with what was generated already where a request goes on elsewhere. */
  readonly tokens: Int32Array;
  /** The first row that must be computed whatever is cached. Default: the last one, which gives the next token. */
  readonly neededFrom?: number;
}

/** Whole blocks before the first row that must be computed: a prompt that ends with a block computes that block. */
export function reusableBlocks(length: number, neededFrom = length - 1): number {
  return Math.max(0, Math.floor(Math.min(neededFrom, length - 1) / BLOCK_TOKENS));
}

/** One key after the other, two numbers each. */
export function promptKeys({ modelKey, salt, tokens, neededFrom }: KeyedPrompt): Int32Array {
  const count = reusableBlocks(tokens.length, neededFrom);
  const chain = new Int32Array((count + 1) * KEY_LANES);
  writeRootKey(modelKey, salt, chain, 0);
  for (let block = 0; block < count; block++) {
    const parentAt = block * KEY_LANES;
    writeBlockKey(chain, parentAt, tokens, block * BLOCK_TOKENS, chain, parentAt + KEY_LANES);
  }
  return chain.subarray(KEY_LANES);
}
